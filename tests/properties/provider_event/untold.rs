//! What Adyen has received and told nothing of: a person says how it ended, and what Adyen tells later counts.

use super::modifications::{capture, received};
use super::*;
use once::call::ByHand;
use once::flow::Flow as _;
use payments::engine::{Payments, Settlement};
use payments::payment::operation::VoidRequest;
use payments::transitions::by_hand::{self, REFUND_SILENT_MS, Refusal, SILENT_MS};

/// What was asked for, how long Adyen may be silent, the event that tells of it, and the statuses of a yes and a no.
const CASES: [(&str, u64, &str, &str, &str); 4] = [
    ("capture", SILENT_MS, "CAPTURE", "succeeded", "requires_capture"),
    ("void", SILENT_MS, "CANCELLATION", "canceled", "requires_capture"),
    ("refund", REFUND_SILENT_MS, "REFUND", "succeeded", "failed"),
    ("payment", SILENT_MS, "AUTHORISATION", "succeeded", "declined"),
];

/// An object in which this was received, and Adyen's id of it.
fn untold(what: &str) -> (Harness, &'static str) {
    match what {
        "capture" => (received(capture(None)).0, "psp_move"),
        "void" => (received(Operation::Void(VoidRequest::default())).0, "psp_move"),
        "refund" => {
            let mut harness = Harness::of(Provider::Adyen);
            let charged = ProviderResult::Charged { payment: "psp_pay".into(), card: None };
            harness.run("pay", pay(Provider::Adyen), Some(charged));
            let answer = ProviderResult::Refunded { refund: "psp_move".into(), settled: false };
            harness.run("refund", refund(), Some(answer));
            (harness, "psp_move")
        }
        _ => {
            let mut harness = Harness::of(Provider::Adyen);
            let processing = ProviderResult::Processing { payment: "psp_pay".into() };
            harness.run("pay", pay(Provider::Adyen), Some(processing));
            (harness, "psp_pay")
        }
    }
}

impl Harness {
    /// What a person says of the newest call.
    fn says(&mut self, said: Option<(&str, bool)>, now_ms: u64) -> Result<(), Refusal> {
        let call = self.object_state.calls.last().unwrap().clone();
        let settlement = match said {
            Some((id, is_done)) => {
                Settlement::Answered(adyen::by_hand::believed(&call, id, is_done).unwrap())
            }
            None => Settlement::NotExecuted,
        };
        let by_hand = ByHand {
            by: "Ada".into(),
            reason: "seen there".into(),
            at_ms: now_ms,
            button: 1,
            is_contradicted: false,
        };
        let word = by_hand::Word { call_id: call.call_id, sends: call.sends, settlement, by_hand };
        let settled = by_hand::settle(&mut self.object_state, &word, &InstanceId("me".into()), &at(now_ms));
        Payments::verify(&self.object_state).unwrap();
        settled.unwrap()
    }

    /// The notification that was lost comes after all.
    fn hears_late(&mut self, kind: &str, derived: &str, id: &str, success: bool, amount: u64) -> Ingested {
        let mut event = self.told(kind, derived, id, success, amount);
        if let EventKind::Refund(told) = &mut event.news {
            told.at_ms = Some(NOW_MS);
        }
        ingest::take(&mut self.object_state, &event, &at(NOW_MS + REFUND_SILENT_MS)).unwrap()
    }

    /// How that stands.
    fn stands(&self, what: &str) -> (&'static str, bool) {
        let payment = self.object_state.resource.payment.as_ref().unwrap();
        let status = if what == "refund" { self.refund(0).status() } else { payment.status() };
        (status, payment.pending.is_some())
    }
}

#[test]
fn a_person_says_how_it_ended_after_a_while_and_under_the_id_that_adyen_has_said() {
    for ((what, silent_ms, _, yes, no), is_done) in
        CASES.into_iter().flat_map(|case| [(case, true), (case, false)])
    {
        let (mut harness, id) = untold(what);
        let before = harness.object_state.clone();
        let early = harness.says(Some((id, is_done)), NOW_MS + silent_ms - 1);
        assert!(matches!(early, Err(Refusal::Settled { .. })), "{what}: {early:?}");
        let due_ms = NOW_MS + silent_ms;
        for other in [None, Some(("psp_other", is_done))] {
            let refused = harness.says(other, due_ms);
            assert_eq!(refused, Err(Refusal::Received { id: id.to_owned() }), "{what}");
        }
        assert_eq!(harness.object_state, before);
        assert_eq!(harness.says(Some((id, is_done)), due_ms), Ok(()), "{what}");
        assert_eq!(harness.stands(what), (if is_done { yes } else { no }, false), "{what}");
        let call = harness.object_state.calls.last().unwrap();
        assert_eq!(by_hand::untold(&harness.object_state, call, due_ms), None, "{what}");
    }
}

#[test]
fn what_adyen_tells_against_that_person_counts_and_is_seen() {
    for ((what, silent_ms, kind, yes, no), is_done) in
        CASES.into_iter().flat_map(|case| [(case, true), (case, false)])
    {
        let (mut harness, id) = untold(what);
        harness.says(Some((id, is_done)), NOW_MS + silent_ms).unwrap();
        let derived = harness.object_state.calls.last().unwrap().provider_key.clone();
        let amount = if what == "refund" { PART } else { AMOUNT };
        let said = if is_done { yes } else { no };
        let before = harness.object_state.clone();
        let same = harness.hears_late(kind, &derived, id, is_done, amount);
        assert_eq!((same, harness.stands(what).0), (Ingested::Applied, said), "{what} {is_done}");
        harness.object_state = before;
        let other = harness.hears_late(kind, &derived, id, !is_done, amount);
        let is_seen = matches!(other, Ingested::Alert { .. } | Ingested::Contradiction { .. });
        assert!(is_seen, "{what} {is_done}: {other:?}");
        let follows = match (what, is_done) {
            // What is over stays so: money that comes to it is given back, and what is held of it lapses.
            ("payment", _) | ("void", true) => said,
            ("capture", true) => "capture_failed",
            (_, true) => no,
            (_, false) => yes,
        };
        let now = harness.stands(what).0;
        assert_eq!(now, follows, "{what} {is_done}");
    }
}

/// How much was captured: all of it, or a part.
#[test]
fn a_capture_that_has_failed_is_settled_by_hand_for_what_it_had_captured() {
    for minor in [AMOUNT, PART] {
        let (mut harness, key) = received(capture(Some(AmountMinor::new(minor).unwrap())));
        let dated = |mut event: Event| {
            if let EventKind::Capture(told) | EventKind::CaptureFailed(told) = &mut event.news {
                told.amount_minor = minor;
            }
            event
        };
        let captured = dated(harness.dated("CAPTURE", &key, true, 1));
        harness.hear(&captured);
        let failed = dated(harness.dated("CAPTURE_FAILED", &key, false, 2));
        harness.hear(&failed);
        let state = &harness.object_state;
        let later_ms = NOW_MS + by_hand::RECAPTURES_END_MS + 86_400_000;
        let (call_id, amount_minor) = by_hand::given_up(state, later_ms).unwrap();
        assert_eq!(amount_minor, minor);
        let call = state.calls.iter().find(|call| call.call_id == call_id).unwrap();
        assert_eq!(by_hand::amount(state, call).map(|(minor, _)| minor), Some(minor));
        // The control: the call that had reserved it is about all of it.
        let reserved = state.calls.first().unwrap();
        assert_eq!(by_hand::amount(state, reserved).map(|(minor, _)| minor), Some(AMOUNT));
    }
}
