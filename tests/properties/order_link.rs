//! An order's links: the newest one wins, and none that was ended comes back.

use once::begin::begin;
use once::id::{InstanceId, ObjectId};
use once::key::KeyHash;
use payments::engine::{Begin, ObjectState};
use payments::flows::order_link::{end, make};
use payments::payment::PaymentState;
use payments::payment::operation::{Operation, Refusal, VoidRequest};
use payments::payment::order_link::{EndedLinks, KEYS_MAX, LinkState, MadeLink, REVISION_MAX, state};
use proptest::prelude::*;

use crate::payment::pay;
use crate::support::{NOW_MS, at, command};

/// A shop's step: to make a link with this revision (or none) and this content, or to end all links.
type Step = (bool, Option<u32>, u8);

fn rows() -> ObjectState {
    ObjectState::empty(ObjectId::from_bytes([7; 32]))
}

fn ask(object_state: &mut ObjectState, key: &str, operation: Operation) -> Begin {
    begin(object_state, &command(key, operation), &InstanceId("me".into()), &at(NOW_MS)).unwrap()
}

fn pay_through(revision: Option<u32>) -> Operation {
    let Operation::Payment(mut request) = pay(true) else { panic!("it pays") };
    request.link_revision = revision;
    Operation::Payment(request)
}

proptest! {
    /// A book of our own: every link that was made, and how it must stand.
    #[test]
    fn one_content_at_most_can_be_paid_and_never_one_that_was_replaced_or_ended(
        steps in prop::collection::vec((prop::bool::weighted(0.2), prop::option::of(1u32..8), 0u8..3), 1..30),
    ) {
        let mut object_state = rows();
        let mut book: Vec<(u32, u8, LinkState)> = Vec::new();
        for (ends, asked, content) in steps as Vec<Step> {
            if ends {
                prop_assert!(matches!(end(&mut object_state, None), EndedLinks::Through(_)));
                for link in book.iter_mut().filter(|link| link.2 == LinkState::Live) {
                    link.2 = LinkState::Ended;
                }
            } else {
                let before = object_state.resource.links.clone();
                match make(&mut object_state, asked, &content.to_string(), None) {
                    MadeLink::Revision(revision) => {
                        prop_assert!(asked.is_none_or(|asked| asked == revision));
                        for link in book.iter_mut().filter(|link| link.0 != revision) {
                            prop_assert!(link.0 < revision, "the newest is the highest");
                            link.2 = LinkState::Replaced;
                        }
                        book.push((revision, content, LinkState::Live));
                    }
                    MadeLink::KeyReused => prop_assert!(false, "there is no key"),
                    MadeLink::Paid(_) => prop_assert!(false, "it is not paid"),
                    MadeLink::RateLimited => prop_assert!(false, "that is decided before"),
                    MadeLink::Conflict(newest) => {
                        prop_assert!(asked.is_some_and(|asked| asked <= newest), "without a revision there is none");
                        prop_assert_eq!(&object_state.resource.links, &before);
                    }
                }
            }
            for (revision, _, stands) in &book {
                prop_assert_eq!(state(object_state.resource.links.as_ref(), *revision), *stands, "{:?} {:?}", book, object_state.resource.links);
            }
            let live = book.iter().filter(|link| link.2 == LinkState::Live).map(|link| link.1);
            prop_assert!(live.collect::<std::collections::BTreeSet<_>>().len() <= 1);
        }
    }

    #[test]
    fn to_ask_again_for_the_same_link_replaces_nothing(asked in prop::option::of(1u32..8), times in 1usize..5) {
        let mut object_state = rows();
        let first = make(&mut object_state, asked, "mug", None);
        let kept = object_state.clone();
        for _ in 0..times {
            prop_assert_eq!(&make(&mut object_state, asked, "mug", None), &first);
            prop_assert_eq!(&object_state, &kept);
        }
    }

    #[test]
    fn a_payment_begins_through_a_live_link_or_by_the_shop_itself(
        newest in 1u32..5, used in prop::option::of(0u32..7), ended in any::<bool>(),
    ) {
        let mut object_state = rows();
        make(&mut object_state, Some(newest), "mug", None);
        if ended {
            end(&mut object_state, None);
        }
        let before = object_state.clone();
        let begun = ask(&mut object_state, "key", pay_through(used));
        let expected = match used {
            Some(used) if used < newest => Some(Refusal::LinkReplaced),
            Some(used) if used == newest && ended => Some(Refusal::LinkEnded),
            _ => None,
        };
        match expected {
            Some(refusal) => {
                prop_assert_eq!(begun, Begin::Refused(refusal));
                prop_assert_eq!(&object_state, &before, "nothing is left of it");
            }
            None => prop_assert!(matches!(begun, Begin::Run(_)), "{:?}", begun),
        }
    }
}

#[test]
fn a_payment_that_is_under_way_keeps_running_and_only_its_own_old_link_gives_it_up() {
    let mut object_state = rows();
    make(&mut object_state, None, "mug", None);
    assert!(matches!(ask(&mut object_state, "pay", pay_through(Some(1))), Begin::Run(_)));
    object_state.resource.payment.as_mut().unwrap().state =
        PaymentState::RequiresAction { url: "https://bank.example".into() };
    make(&mut object_state, None, "a dearer mug", None);
    make(&mut object_state, None, "the dearest mug", None);
    let kept = object_state.resource.payment.clone();
    let give_up = |link_revision| {
        Operation::Void(VoidRequest {
            page: None,
            attempt: Some(1),
            link_revision: Some(link_revision),
            seen: None,
        })
    };
    assert_eq!(ask(&mut object_state, "two", give_up(2)), Begin::Refused(Refusal::LinkReplaced));
    assert_eq!(object_state.resource.payment, kept);
    assert!(matches!(ask(&mut object_state.clone(), "three", give_up(3)), Begin::Run(_)), "the newest may");
    assert!(matches!(ask(&mut object_state, "one", give_up(1)), Begin::Run(_)), "and so may its own");
}

#[test]
fn behind_the_highest_revision_comes_none() {
    let mut object_state = rows();
    assert_eq!(make(&mut object_state, Some(REVISION_MAX), "mug", None), MadeLink::Revision(REVISION_MAX));
    let before = object_state.clone();
    assert_eq!(
        make(&mut object_state, None, "mug", None),
        MadeLink::Revision(REVISION_MAX),
        "the same again"
    );
    assert_eq!(make(&mut object_state, None, "a dearer mug", None), MadeLink::Conflict(REVISION_MAX));
    assert_eq!(object_state, before);
}

/// The client's own retry of the first request, which arrives when a newer link is out.
#[test]
fn a_late_repetition_brings_back_only_without_a_key_what_was_replaced() {
    let key = |name: &str| Some(KeyHash(name.to_owned()));
    for (first, expected) in [(key("first"), MadeLink::Revision(1)), (None, MadeLink::Revision(3))] {
        let mut object_state = rows();
        assert_eq!(make(&mut object_state, None, "mug", first.clone()), MadeLink::Revision(1));
        assert_eq!(make(&mut object_state, None, "a dearer mug", key("second")), MadeLink::Revision(2));
        assert_eq!(make(&mut object_state, None, "mug", first), expected);
    }
}

/// The same of the end of all links.
#[test]
fn a_late_repetition_ends_only_without_a_key_what_was_made_since() {
    let key = |name: &str| Some(KeyHash(name.to_owned()));
    for (ends, expected) in [(key("ends"), LinkState::Live), (None, LinkState::Ended)] {
        let mut object_state = rows();
        make(&mut object_state, None, "mug", key("first"));
        assert_eq!(end(&mut object_state, ends.clone()), EndedLinks::Through(1));
        make(&mut object_state, None, "a dearer mug", None);
        let through = if ends.is_some() { 1 } else { 2 };
        assert_eq!(end(&mut object_state, ends), EndedLinks::Through(through));
        assert_eq!(state(object_state.resource.links.as_ref(), 2), expected);
    }
    let mut object_state = rows();
    make(&mut object_state, None, "mug", key("first"));
    assert_eq!(end(&mut object_state, key("first")), EndedLinks::KeyReused);
    assert_eq!(end(&mut object_state, key("ends")), EndedLinks::Through(1));
    assert_eq!(make(&mut object_state, None, "mug", key("ends")), MadeLink::KeyReused);
}

#[test]
fn a_key_stands_for_one_link_and_the_newest_are_known() {
    let key = |n: usize| Some(KeyHash(format!("{n}")));
    let mut object_state = rows();
    make(&mut object_state, None, "mug", key(0));
    assert_eq!(make(&mut object_state, None, "a dearer mug", key(0)), MadeLink::KeyReused);
    assert_eq!(
        make(&mut object_state, Some(7), "mug", key(0)),
        MadeLink::KeyReused,
        "its revision is its own"
    );
    end(&mut object_state, None);
    assert_eq!(make(&mut object_state, None, "mug", key(0)), MadeLink::Revision(1), "and it stays ended");
    for n in 1..=KEYS_MAX {
        make(&mut object_state, None, &format!("mug {n}"), key(n));
    }
    assert_eq!(object_state.resource.links.as_ref().unwrap().keys.len(), KEYS_MAX);
    let newest = make(&mut object_state, None, &format!("mug {KEYS_MAX}"), key(KEYS_MAX));
    assert_eq!(newest, make(&mut object_state, None, &format!("mug {KEYS_MAX}"), None));
    assert!(matches!(make(&mut object_state, None, "mug", key(0)), MadeLink::Revision(more) if more > 1));
}

#[test]
fn the_links_of_a_paid_order_are_not_ended() {
    let mut object_state = rows();
    make(&mut object_state, None, "mug", None);
    ask(&mut object_state, "pay", pay_through(Some(1)));
    object_state.resource.payment.as_mut().unwrap().state = PaymentState::Captured { amount_minor: 5000 };
    let before = object_state.clone();
    assert_eq!(end(&mut object_state, None), EndedLinks::Paid("succeeded".into()));
    assert_eq!(object_state, before);
}

#[test]
fn no_other_link_is_made_to_a_paid_order() {
    let order = || {
        let mut object_state = rows();
        make(&mut object_state, None, "mug", None);
        ask(&mut object_state, "pay", pay_through(Some(1)));
        object_state
    };
    for (state, status) in [
        (PaymentState::Captured { amount_minor: 5000 }, "succeeded"),
        (PaymentState::Authorized, "requires_capture"),
        (PaymentState::CaptureFailed { amount_minor: 5000 }, "capture_failed"),
    ] {
        let mut object_state = order();
        object_state.resource.payment.as_mut().unwrap().state = state;
        let before = object_state.clone();
        for asked in [None, Some(1), Some(7)] {
            let key = Some(KeyHash("of a retry".into()));
            assert_eq!(make(&mut object_state, asked, "two mugs", key), MadeLink::Paid(status.into()));
        }
        assert_eq!(object_state, before);
        assert_eq!(make(&mut object_state, None, "mug", None), MadeLink::Revision(1), "its own is there");
        // Made by the API under the order's id.
        object_state.resource.links = None;
        assert_eq!(make(&mut object_state, None, "mug", None), MadeLink::Paid(status.into()));
    }
    let control = make(&mut order(), None, "two mugs", None);
    assert_eq!(control, MadeLink::Revision(2), "it is not paid yet");
}
