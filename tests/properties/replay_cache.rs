//! Copies of responses at the edge: who is given one, and when it is gone.

use once::fingerprint::{Canonical, Fingerprint};
use once::id::{Owner, RequestId};
use once::key::{IdempotencyKey, KeyHash};
use once::record::StoredResponse;
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
