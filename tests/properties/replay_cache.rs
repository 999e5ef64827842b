//! Copies of responses at the edge: who is given one, and when it is gone.

use once::fingerprint::{Canonical, Fingerprint};
use once::id::{Owner, RequestId};
use once::key::{IdempotencyKey, KeyHash};
use once::record::StoredResponse;
use paid_once::replay_cache::{Final, LASTS_MAX_MS, ReplayCache, Verbatim};

use crate::support::NOW_MS;

const UNTIL_MS: u64 = NOW_MS + 10_000;

fn owner(id: &str) -> Owner {
    Owner::Account(id.into())
}

fn fingerprint(parameters: &str) -> Fingerprint {
    Fingerprint::of("POST", "/payments", &Canonical(parameters.into()))
}

fn key(number: usize) -> KeyHash {
    IdempotencyKey::parse(&format!("key-{number}")).unwrap().hash(&owner("a"))
}

fn copy(body_len: usize) -> Final {
    Final {
        owner: owner("a"),
        fingerprint: fingerprint("{}"),
        response: StoredResponse { status: 201, headers: Vec::new(), body: vec![b'x'; body_len] },
        original_request: RequestId("req_1".into()),
        took_money: true,
    }
}

fn verbatim(head: &str, body: &str, answer: u32) -> Verbatim<u32> {
    Verbatim { head: head.to_owned(), body: body.into(), answer, answer_bytes: 100 }
}

/// One with a copy, and the request that it answered.
fn remembering() -> ReplayCache<u32> {
    let mut cache = cache();
    cache.remember(&key(1), verbatim("head", "body", 1));
    cache
}

fn recalled(cache: &mut ReplayCache<u32>, head: &str, body: &str, now_ms: u64) -> Option<u32> {
    cache.recall(head, body.as_bytes(), now_ms).map(|(answer, _)| *answer)
}

fn cache() -> ReplayCache<u32> {
    let mut cache = ReplayCache::default();
    cache.keep(&key(1), copy(10), UNTIL_MS, NOW_MS);
    cache
}

fn is_found(cache: &mut ReplayCache<u32>, number: usize, now_ms: u64) -> bool {
    cache.find(&owner("a"), &key(number), &fingerprint("{}"), now_ms).is_some()
}

#[test]
fn the_same_request_of_the_same_owner_gets_the_copy() {
    assert_eq!(cache().find(&owner("a"), &key(1), &fingerprint("{}"), NOW_MS), Some(&copy(10)));
}

#[test]
fn nobody_else_gets_it_nor_another_request() {
    let session = Owner::Session("a".into());
    for (owner, key, parameters) in [
        (owner("b"), key(1), "{}"),
        (session, key(1), "{}"),
        (owner("a"), key(2), "{}"),
        (owner("a"), key(1), r#"{"amount":1}"#),
    ] {
        assert_eq!(cache().find(&owner, &key, &fingerprint(parameters), NOW_MS), None);
    }
}

#[test]
fn it_lasts_until_its_time() {
    let mut cache = cache();
    assert!(is_found(&mut cache, 1, UNTIL_MS - 1));
    assert!(!is_found(&mut cache, 1, UNTIL_MS));
    assert!(!is_found(&mut cache, 1, UNTIL_MS - 1), "it is not there any more");
    cache.keep(&key(1), copy(10), NOW_MS, NOW_MS);
    assert!(!is_found(&mut cache, 1, NOW_MS), "one whose time is over is not kept");
}

#[test]
fn what_is_dropped_is_gone_also_where_an_answer_is_still_on_its_way() {
    let mut cache = cache();
    let later_ms = NOW_MS + LASTS_MAX_MS;
    cache.forget(&key(1), later_ms);
    assert!(!is_found(&mut cache, 1, NOW_MS));
    cache.keep(&key(1), copy(10), UNTIL_MS, NOW_MS);
    assert!(!is_found(&mut cache, 1, NOW_MS));
    // The control: nothing else keeps it out.
    cache.keep(&key(1), copy(10), later_ms + 1, later_ms);
    assert!(is_found(&mut cache, 1, later_ms));
}

#[test]
fn its_memory_is_bounded_and_the_least_used_go_first() {
    let mut cache = cache();
    for number in 2..200 {
        cache.keep(&key(number), copy(60_000), UNTIL_MS, NOW_MS);
        assert!(is_found(&mut cache, 1, NOW_MS), "it was used last");
    }
    let kept = (2..200).filter(|number| is_found(&mut cache, *number, NOW_MS)).count();
    assert_eq!(kept, (4 << 20) / 60_512);
    assert!(!is_found(&mut cache, 2, NOW_MS) && is_found(&mut cache, 199, NOW_MS));
    cache.keep(&key(200), copy(65_537), UNTIL_MS, NOW_MS);
    assert!(!is_found(&mut cache, 200, NOW_MS), "what is long is not kept");
}

#[test]
fn the_very_same_request_is_recalled_and_no_other() {
    let mut cache = remembering();
    assert_eq!(cache.recall("head", b"body", NOW_MS), Some((&1, &copy(10))));
    assert!(cache.is_any_remembered() && cache.knows("head") && !cache.knows("heads"));
    for (head, body) in [("heads", "body"), ("head", "bodies"), ("head", ""), ("", "body")] {
        assert_eq!(recalled(&mut cache, head, body, NOW_MS), None, "{head} {body}");
    }
}

#[test]
fn a_request_is_remembered_as_long_as_its_copy_and_no_longer() {
    let mut cache = remembering();
    assert_eq!(recalled(&mut cache, "head", "body", UNTIL_MS - 1), Some(1));
    assert_eq!(recalled(&mut cache, "head", "body", UNTIL_MS), None);
    assert!(!cache.knows("head") && !cache.is_any_remembered());
    let mut cache = remembering();
    cache.forget(&key(1), NOW_MS + LASTS_MAX_MS);
    assert_eq!(recalled(&mut cache, "head", "body", NOW_MS), None);
    assert!(!cache.knows("head"));
    cache.remember(&key(1), verbatim("head", "body", 1));
    cache.remember(&key(2), verbatim("head", "body", 1));
    assert!(!cache.knows("head"), "there is no copy");
    // Another copy under the key is not what it was made of.
    let mut cache = remembering();
    cache.keep(&key(1), copy(20), UNTIL_MS, NOW_MS);
    assert_eq!(recalled(&mut cache, "head", "body", NOW_MS), None);
}

#[test]
fn one_request_a_key_is_remembered_and_one_a_head() {
    let mut cache = remembering();
    cache.remember(&key(1), verbatim("another head", "body", 2));
    assert_eq!(recalled(&mut cache, "head", "body", NOW_MS), None);
    assert_eq!(recalled(&mut cache, "another head", "body", NOW_MS), Some(2));
    // The keys of these stand in their bodies.
    cache.keep(&key(2), copy(10), UNTIL_MS, NOW_MS);
    cache.remember(&key(2), verbatim("another head", "another body", 3));
    assert_eq!(recalled(&mut cache, "another head", "body", NOW_MS), None);
    assert_eq!(recalled(&mut cache, "another head", "another body", NOW_MS), Some(3));
    cache.forget(&key(1), NOW_MS + LASTS_MAX_MS);
    assert_eq!(recalled(&mut cache, "another head", "another body", NOW_MS), Some(3));
}

#[test]
fn requests_take_part_in_the_bound_and_what_is_recalled_was_used() {
    let mut cache = remembering();
    for number in 2..200 {
        cache.keep(&key(number), copy(10), UNTIL_MS, NOW_MS);
        cache.remember(
            &key(number),
            Verbatim { answer_bytes: 60_000, ..verbatim(&format!("{number}"), "", 0) },
        );
        assert_eq!(recalled(&mut cache, "head", "body", NOW_MS), Some(1));
    }
    let known = (2..200).filter(|number| cache.knows(&number.to_string())).count();
    assert!((60..70).contains(&known), "{known}");
    let kept = (2..200).filter(|number| is_found(&mut cache, *number, NOW_MS)).count();
    assert_eq!(kept, known, "each goes with its copy");
    // What is forgotten gives its room back.
    for number in (2..200).rev() {
        cache.forget(&key(number), NOW_MS + 1);
    }
    for number in 200..265 {
        cache.keep(&key(number), copy(60_000), UNTIL_MS, NOW_MS);
    }
    assert_eq!(recalled(&mut cache, "head", "body", NOW_MS), Some(1));
    assert_eq!((200..265).filter(|number| is_found(&mut cache, *number, NOW_MS)).count(), 65);
}
