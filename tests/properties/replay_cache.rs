//! Copies of responses at the edge: who is given one, and when it is gone.

use once::fingerprint::{Canonical, Fingerprint};
use once::id::{ObjectId, Owner, RequestId};
use once::key::{IdempotencyKey, KeyHash};
use once::record::StoredResponse;
use paid_once::replay_cache::requests::{REQUESTS_MAX, Requests};
use paid_once::replay_cache::{Final, LASTS_MAX_MS, ReplayCache};

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
        object: ObjectId::from_bytes([7; 32]),
        response: StoredResponse { status: 201, headers: Vec::new(), body: vec![b'x'; body_len] },
        original_request: RequestId("req_1".into()),
        took_money: true,
    }
}

fn cache() -> ReplayCache {
    let mut cache = ReplayCache::default();
    cache.keep(&key(1), copy(10), UNTIL_MS, NOW_MS);
    cache
}

fn is_found(cache: &mut ReplayCache, number: usize, now_ms: u64) -> bool {
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

/// One request is remembered.
fn remembering() -> Requests<u32> {
    let mut requests = Requests::default();
    requests.remember("head", b"body", 1);
    requests
}

#[test]
fn what_was_read_in_the_very_same_request_is_recalled_and_in_no_other() {
    let mut requests = remembering();
    assert_eq!(requests.recall("head", b"body"), Some(1));
    assert!(!requests.is_empty() && requests.knows("head") && !requests.knows("heads"));
    for (head, body) in [("heads", "body"), ("head", "bodies"), ("head", ""), ("", "body"), ("headb", "ody")]
    {
        assert_eq!(requests.recall(head, body.as_bytes()), None, "{head} {body}");
    }
    assert!(Requests::<u32>::default().is_empty());
}

#[test]
fn one_request_a_head_is_remembered() {
    let mut requests = remembering();
    requests.remember("head", b"another body", 2);
    assert_eq!(requests.recall("head", b"body"), None);
    assert_eq!(requests.recall("head", b"another body"), Some(2));
    assert_eq!((requests.last_of("head"), requests.last_of("heads")), (Some(2), None));
}

#[test]
fn so_many_requests_are_remembered_and_those_that_come_again_stay() {
    let mut requests = remembering();
    for number in 0..REQUESTS_MAX * 5 {
        requests.remember(&number.to_string(), b"", 2);
        if number % (REQUESTS_MAX / 2) == 0 {
            assert_eq!(requests.recall("head", b"body"), Some(1), "{number}");
        }
    }
    let known = (0..REQUESTS_MAX * 5).filter(|number| requests.knows(&number.to_string())).count();
    assert!((REQUESTS_MAX..REQUESTS_MAX * 2).contains(&known), "{known}");
    // What is remembered anew is not found as it was.
    requests.remember("head", b"body", 3);
    for number in 0..REQUESTS_MAX {
        requests.remember(&format!("later {number}"), b"", 2);
    }
    assert_eq!(requests.recall("head", b"body"), Some(3));
}
