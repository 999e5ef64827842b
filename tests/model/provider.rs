//! The provider as the model sees it: it keeps an answer under its key for a while, and then executes anew.
//!
//! It speaks Stripe's HTTP, so that the real classifier and the real reader of the list are part of what is checked.

use std::collections::BTreeMap;
use std::sync::Arc;

use payments::providers::HttpAnswer;

use crate::world::QUARANTINE_TICKS;

/// What is asked for, in US cents.
pub const AMOUNT_MINOR: u64 = 2000;

/// For how many ticks an answer is kept under its key. Past that the same key is executed again.
pub const KEY_KEPT_TICKS: u8 = 3;

/// What becomes of a send that is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Decision {
    /// Money moves.
    Charge,
    /// The card is declined.
    Decline,
    /// Money moves, and the answer, kept like any other, is a 500.
    ChargeAndFail,
    /// Nothing happens, and the answer is a 500.
    Fail,
    /// The same; and some time later, by itself, the provider completes the work, and money moves.
    FailAndComplete,
    /// 429: nothing happens and nothing is kept.
    TurnAway,
    /// 400, about the request itself: nothing happens and nothing is kept.
    Reject,
}

impl Decision {
    pub const ALL: [Self; 7] = [
        Self::Charge,
        Self::Decline,
        Self::ChargeAndFail,
        Self::Fail,
        Self::FailAndComplete,
        Self::TurnAway,
        Self::Reject,
    ];

    /// Whether it counts as a fault.
    pub const fn is_upset(self) -> bool {
        !matches!(self, Self::Charge | Self::Decline)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Kept {
    first_at: u8,
    body: Arc<str>,
    verdict: Decision,
}

/// The provider's whole state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Provider {
    kept: BTreeMap<Arc<str>, Kept>,
    /// The PaymentIntents, in the order of their making: the idempotency key in their metadata, and whether they
    /// were paid.
    intents: Vec<(Arc<str>, bool)>,
    /// What it has still to complete: the keys, and when it failed.
    to_complete: Vec<(Arc<str>, u8)>,
}

impl Provider {
    /// How often money moved.
    pub fn charges(&self) -> usize {
        self.intents.iter().filter(|(_, paid)| *paid).count()
    }

    /// The tick before which it completes what it has begun, if there is something. The quarantine may count from the send,
    /// which can be a tick older.
    pub fn completes_before(&self) -> Option<u8> {
        self.to_complete.first().map(|(_, failed_at)| failed_at + QUARANTINE_TICKS - 1)
    }

    /// Completes what failed.
    pub fn complete(&mut self) {
        let (key, _) = self.to_complete.remove(0);
        self.intents.push((key, true));
    }

    /// When a send under this key was first executed.
    pub fn first_executed_at(&self, key: &str) -> Option<u8> {
        self.kept.get(key).map(|kept| kept.first_at)
    }

    /// Whether a send under this key would get the kept answer.
    pub fn remembers(&self, key: &str, now: u8) -> bool {
        self.kept.get(key).is_some_and(|kept| now < kept.first_at + KEY_KEPT_TICKS)
    }

    /// Takes in a send and answers it. The verdict counts only if the key is not remembered.
    pub fn take(&mut self, key: &Arc<str>, body: &Arc<str>, now: u8, verdict: Decision) -> HttpAnswer {
        if self.remembers(key, now) {
            let kept = self.kept[key].clone();
            if kept.body != *body {
                return answer(400, false, r#"{"error":{"type":"idempotency_error"}}"#.into());
            }
            return self.say(key, kept.verdict, true);
        }
        match verdict {
            Decision::Charge | Decision::ChargeAndFail => self.intents.push((key.clone(), true)),
            Decision::Decline => self.intents.push((key.clone(), false)),
            Decision::Fail => {}
            Decision::FailAndComplete => self.to_complete.push((key.clone(), now)),
            Decision::TurnAway | Decision::Reject => return self.say(key, verdict, false),
        }
        // A key that is executed anew keeps its first time: that is what the window is measured from.
        let first_at = if self.kept.contains_key(key) { self.kept[key].first_at } else { now };
        self.kept.insert(key.clone(), Kept { first_at, body: body.clone(), verdict });
        self.say(key, verdict, false)
    }

    fn say(&self, key: &str, verdict: Decision, replayed: bool) -> HttpAnswer {
        let intent = |status: &str| json(&format!("pi_{}", self.number(key)), status, key);
        match verdict {
            Decision::Charge => answer(200, replayed, intent("succeeded")),
            Decision::Decline => {
                let intent = intent("requires_payment_method");
                let error =
                    r#""type":"card_error","code":"card_declined","message":"Your card was declined.""#;
                answer(402, replayed, format!(r#"{{"error":{{{error},"payment_intent":{intent}}}}}"#))
            }
            Decision::ChargeAndFail | Decision::Fail | Decision::FailAndComplete => {
                answer(500, replayed, r#"{"error":{"type":"api_error"}}"#.into())
            }
            Decision::Reject => {
                answer(400, replayed, r#"{"error":{"type":"invalid_request_error","code":"c"}}"#.into())
            }
            Decision::TurnAway => answer(429, replayed, r#"{"error":{"type":"rate_limit"}}"#.into()),
        }
    }

    fn number(&self, key: &str) -> usize {
        self.intents.iter().position(|(k, _)| **k == *key).unwrap_or_default()
    }

    /// A page of the list of PaymentIntents as it stands now, newest first: one entry, so that a look-up has several
    /// pages and the world goes on between them. Two payments of others are older than all of ours.
    pub fn list(&self, path: &str) -> HttpAnswer {
        let ours = self.intents.iter().enumerate().rev().map(|(i, (key, paid))| {
            let status = if *paid { "succeeded" } else { "requires_payment_method" };
            (format!("pi_{i}"), status, &**key)
        });
        let others = ["pi_other_2", "pi_other_1"].map(|id| (id.to_owned(), "succeeded", "of_another"));
        let list: Vec<_> = ours.chain(others).collect();
        let after = path.split_once("starting_after=").map(|(_, id)| id);
        let from = after.map_or(0, |id| 1 + list.iter().position(|(known, ..)| known == id).unwrap());
        let page: Vec<String> =
            list.iter().skip(from).take(1).map(|(id, status, key)| json(id, status, key)).collect();
        let has_more = list.len() > from + 1;
        answer(200, false, format!(r#"{{"data":[{}],"has_more":{has_more}}}"#, page.join(",")))
    }
}

/// A PaymentIntent over the whole of what is asked for.
fn json(id: &str, status: &str, key: &str) -> String {
    let received = if status == "succeeded" { AMOUNT_MINOR } else { 0 };
    let error = if status == "succeeded" { "null" } else { r#"{"code":"card_declined"}"# };
    format!(
        r#"{{"id":"{id}","status":"{status}","last_payment_error":{error},"amount":{AMOUNT_MINOR},"amount_received":{received},"currency":"usd","metadata":{{"idempotency_key":"{key}"}}}}"#
    )
}

fn answer(status: u16, replayed: bool, body: String) -> HttpAnswer {
    HttpAnswer { status, should_retry: None, retry_after_ms: None, replayed, request_id: None, body }
}
