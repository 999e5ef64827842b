//! Adyen over the books: payments with stored cards and their modifications, which it only ever *receives*; nothing can be
//! asked. Its keys are kept for seven days.

use payments::providers::HttpAnswer;
use serde_json::{Value, json};

use std::collections::{BTreeMap, BTreeSet};

use super::bank::{Asked, Card, Done, Intent, Keys, Later, Ledger, Memory, Status};
use super::elsewhere::{DASHBOARD, Effect};
use crate::faults::{HOUR, Oddity, SECOND};
use crate::history::plain;

pub(crate) struct Adyen {
    pub(crate) ledger: Ledger,
    pub(crate) keys: Keys,
    /// What each key's request called itself: notifications repeat it.
    pub(crate) references: BTreeMap<String, String>,
    /// Whether notifications of a move name the payment instead: "Your reference to uniquely identify the payment. For modifications, this field
    /// corresponds to the payment request assigned to the original payment.",
    /// <https://docs.adyen.com/api-explorer/Webhooks/1/post/CANCELLATION>. Its live system mostly repeats what the move called itself.
    pub(crate) names_payments: bool,
    /// Notifications that no payment's new state tells of, to be sent.
    pub(crate) items: Vec<Value>,
    /// The refunds that somebody made by asking for a cancel or a refund: told of as that.
    pub(crate) reversals: BTreeSet<String>,
    /// The keys whose payments are being called off, or were.
    pub(crate) called_off: BTreeSet<String>,
    /// When what happens now happens.
    pub(crate) now_ms: u64,
}

/// <https://docs.adyen.com/online-payments/reversal>: `additionalData` says which it was.
pub(crate) const CANCEL_OR_REFUND: &str = "CANCEL_OR_REFUND";

/// How long a capture or a void is worked on that was received.
const WORK_MS: u64 = 30 * SECOND;

fn error(status: u16, code: &str, message: &str) -> HttpAnswer {
    let body = format!(
        r#"{{"status":{status},"errorCode":"{code}","message":"{message}","errorType":"validation"}}"#
    );
    plain(status, &body)
}

fn read(path: &str, body: &str) -> Option<Asked> {
    let body: Value = serde_json::from_str(body).ok()?;
    let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    let amount = body["amount"]["value"].as_u64();
    match parts.as_slice() {
        ["payments"] => Some(Asked::Create {
            resource: body["metadata"]["resource"].as_str()?.to_owned(),
            amount: amount?,
            currency: body["amount"]["currency"].as_str()?.to_owned(),
            manual: body["additionalData"]["manualCapture"] == "true",
            card: match body["paymentMethod"]["storedPaymentMethodId"].as_str()? {
                "declined" => Card::Declined,
                "pending" => Card::Slow,
                _ => Card::Good,
            },
            page: false,
        }),
        ["payments", intent, "captures"] => {
            Some(Asked::Capture { intent: (*intent).to_owned(), amount: amount? })
        }
        ["payments", intent, "cancels"] => Some(Asked::Cancel { intent: (*intent).to_owned() }),
        ["payments", intent, "refunds"] => {
            Some(Asked::Refund { intent: (*intent).to_owned(), amount: amount? })
        }
        _ => None,
    }
}

impl Adyen {
    /// A notification's item: `by` is the key of what it tells of, `original` the payment that was modified.
    pub(crate) fn notification(
        &self,
        code: &str,
        id: &str,
        original: &str,
        by: &str,
        amount: Value,
        success: bool,
    ) -> Value {
        let named = match self.ledger.intent(original) {
            Some(intent) if self.names_payments => &intent.by,
            _ => by,
        };
        json!({
            "amount": amount,
            "eventCode": code,
            "eventDate": payments::timestamp(self.now_ms),
            "merchantAccountCode": "Merchant",
            "merchantReference": self.references.get(named),
            "originalReference": original,
            "pspReference": id,
            "reason": if success { "" } else { "Refused" },
            "success": success.to_string(),
        })
    }

    /// What has become of a capture or a void that was received: it is told of, whatever it is.
    pub(crate) fn modify(&mut self, by: &str, asked: &Asked, good: bool) {
        let odd = (!good).then_some(Oddity::Declined);
        let (done, _) = self.ledger.perform(self.now_ms, by, asked.clone(), odd);
        let (code, id) = match asked {
            Asked::Capture { intent, .. } => ("CAPTURE", intent),
            Asked::Cancel { intent } => ("CANCELLATION", intent),
            Asked::Create { .. } | Asked::Refund { .. } | Asked::Customer { .. } => return,
        };
        let Some(intent) = self.ledger.intent(id) else { return };
        let minor = match asked {
            Asked::Capture { amount, .. } => *amount,
            _ => intent.amount,
        };
        let amount = json!({ "value": minor, "currency": intent.currency });
        let item =
            self.notification(code, &format!("M{by}"), id, by, amount, matches!(done, Done::Intent(_)));
        self.items.push(item);
    }

    /// Calls a payment off, by its id or by what it called itself: received, whatever comes of it. Where there is none nothing is
    /// told.
    pub(crate) fn call_off(&mut self, body: &str) -> (HttpAnswer, Option<Later>) {
        let body: Value = serde_json::from_str(body).unwrap();
        let is_it = |known: &&String| body["reference"] == known.as_str();
        let by = self.references.iter().find(|(_, known)| is_it(known)).map(|(by, _)| by.clone());
        // Of what was refused there is nothing to call off.
        let is_its = |it: &&Intent| Some(&it.by) == by.as_ref() && it.status != Status::Refused;
        let intent = self.ledger.intents.iter().find(is_its);
        let later = intent.filter(|intent| self.called_off.insert(intent.by.clone())).map(|intent| {
            let (by, asked) = (intent.by.clone(), Asked::Cancel { intent: intent.id.clone() });
            Later::Modify { by, asked, ms: WORK_MS, good: true }
        });
        (plain(201, r#"{"pspReference":"C1","status":"received"}"#), later)
    }

    /// A person moves money in the Customer Area: what tells of it has the payment's own reference.
    pub(crate) fn in_the_customer_area(&mut self, id: &str, does: Effect) -> bool {
        if !self.ledger.at_the_dashboard(id, does) {
            return false;
        }
        let reference = self.ledger.intent(id).and_then(|intent| self.references.get(&intent.by)).cloned();
        let is_refund = self.ledger.intent(id).is_some_and(|intent| intent.captured > 0)
            && !matches!(does, Effect::Captures { .. });
        let refund = self.ledger.refunds.last().filter(|_| is_refund);
        if let (Some(refund), Effect::CancelsOrRefunds) = (refund, does) {
            self.reversals.insert(refund.id.clone());
        }
        let by = match is_refund {
            true => refund.map(|refund| refund.by.clone()),
            false => Some(format!("{DASHBOARD}-{id}")),
        };
        let (Some(reference), Some(by)) = (reference, by) else { return true };
        self.references.insert(by.clone(), reference);
        let code = match does {
            // Told of as every refund is.
            _ if is_refund => return true,
            Effect::Captures { .. } => "CAPTURE",
            Effect::CancelsOrRefunds => CANCEL_OR_REFUND,
            Effect::Cancels | Effect::Refunds { .. } => "CANCELLATION",
        };
        let Some(intent) = self.ledger.intent_mut(id) else { return true };
        intent.moved_by = Some(by.clone());
        let minor = if intent.captured == 0 { intent.amount } else { intent.captured };
        let amount = json!({ "value": minor, "currency": intent.currency });
        let mut item = self.notification(code, &format!("M{by}"), id, &by, amount, true);
        if code == CANCEL_OR_REFUND {
            item["additionalData"] = json!({ "modification.action": "cancel" });
        }
        self.items.push(item);
        true
    }

    /// What has happened to a payment of itself, days later.
    pub(crate) fn turn(&mut self, later: &Later) {
        let (code, turned) = match later {
            Later::Revive { intent } => return self.ledger.revive(intent),
            Later::CaptureFails { intent } => ("CAPTURE_FAILED", self.ledger.fail_capture(intent)),
            Later::Recapture { intent } => ("CAPTURE", self.ledger.recapture(intent)),
            Later::Expire { intent } => ("EXPIRE", self.ledger.expire(intent)),
            _ => return,
        };
        let Some(intent) = turned else { return };
        let minor = if code == "EXPIRE" { intent.amount } else { intent.taken };
        let amount = json!({ "value": minor, "currency": intent.currency });
        // A capture that nobody has asked for has the payment's reference.
        let by = intent.moved_by.as_ref().unwrap_or(&intent.by);
        let (id, original) = match code {
            "EXPIRE" => (intent.id.clone(), ""),
            _ => (format!("M{by}"), intent.id.as_str()),
        };
        let by = if code == "EXPIRE" { &intent.by } else { by };
        let item = self.notification(code, &id, original, by, amount, true);
        self.items.push(item);
    }

    pub(crate) fn arrive(
        &mut self,
        now_ms: u64,
        key: &str,
        path: &str,
        body: &str,
        odd: Option<Oddity>,
    ) -> Option<HttpAnswer> {
        match odd {
            Some(Oddity::RateLimited { retry_after_ms }) => {
                let answer = error(429, "00_429", "slow down");
                return Some(HttpAnswer { retry_after_ms: Some(retry_after_ms), ..answer });
            }
            Some(Oddity::Unauthorized) => return Some(error(401, "000", "unauthorized")),
            Some(Oddity::Unavailable) => return Some(plain(503, "<html>")),
            _ => {}
        }
        let parameters = format!("{path} {body}");
        match self.keys.recall(now_ms, key, &parameters) {
            Memory::Stored(answer) => return Some(answer),
            Memory::Executing => return Some(error(422, "704", "request already processed or in progress")),
            Memory::Mismatch => return Some(error(422, "702", "idempotency key reused")),
            Memory::Nothing => {}
        }
        match odd {
            Some(Oddity::Hiccup) => {
                let answer = error(503, "905_1", "could not find an acquirer account");
                return Some(HttpAnswer { should_retry: Some(true), ..answer });
            }
            Some(Oddity::Invalid) => return Some(error(422, "14_0408", "invalid account")),
            _ => {}
        }
        self.keys.begin(now_ms, key, &parameters);
        None
    }

    pub(crate) fn execute(
        &mut self,
        since_ms: u64,
        key: &str,
        path: &str,
        body: &str,
        odd: Option<Oddity>,
    ) -> (HttpAnswer, Option<Later>) {
        let Some(asked) = read(path, body) else {
            self.keys.forget(key);
            return (error(422, "702", "not understood"), None);
        };
        let fields = serde_json::from_str::<Value>(body).unwrap_or_default();
        if matches!(asked, Asked::Create { .. }) && fields["returnUrl"].as_str().is_none_or(str::is_empty) {
            self.keys.forget(key);
            return (error(422, "14_030", "Return URL is missing."), None);
        }
        let reference = fields["reference"].as_str().unwrap_or_default();
        self.references.insert(key.to_owned(), reference.to_owned());
        let amount = fields["amount"].to_string();
        let is_part = matches!(odd, Some(Oddity::LeftOpen { .. }));
        let odd = odd.filter(|_| !is_part);
        if let Asked::Capture { intent, .. } | Asked::Cancel { intent } = &asked
            && !matches!(odd, Some(Oddity::Uncharged500 | Oddity::Uncharged500Final))
        {
            return self.receive(key, intent, &asked, &amount, odd);
        }
        let (mut done, mut later) = self.ledger.perform(since_ms, key, asked.clone(), odd);
        // A modification is only received: a refund is decided later.
        if let Done::Refund(refund) = &mut done
            && later.is_none()
        {
            later = Some(Later::Refund { refund: refund.id.clone(), ms: HOUR, good: true });
            self.ledger.take_in_refund(&refund.id);
        }
        if let Done::Intent(made) = &done
            && let Some(intent) = self.ledger.intent_mut(&made.id)
            && is_part
            && matches!(asked, Asked::Create { .. })
            && matches!(intent.status, Status::Reserved | Status::Captured)
        {
            (intent.status, intent.amount) = (Status::Reserved, intent.amount / 2);
            (intent.captured, intent.taken) = (0, 0);
            let (currency, value) = (&intent.currency, intent.amount);
            let body = json!({
                "pspReference": intent.id, "resultCode": "PartiallyAuthorised",
                "amount": { "currency": currency, "value": value },
            });
            let answer = plain(200, &body.to_string());
            self.keys.store(key, &answer);
            return (answer, None);
        }
        let answer = match &done {
            // The other half of those: the issuer has not answered, and may hold the money all the same.
            Done::Declined(Some(intent)) if odd == Some(Oddity::Declined) && since_ms.is_multiple_of(2) => {
                if let Some(intent) = self.ledger.intent_mut(&intent.id) {
                    intent.has_erred = true;
                }
                plain(200, &format!(r#"{{"pspReference":"{}","resultCode":"Error"}}"#, intent.id))
            }
            // Every other one is heard of the issuer as an `Error`: it holds the money all the same.
            Done::Intent(intent) if odd == Some(Oddity::ChargedThen500) && since_ms.is_multiple_of(2) => {
                plain(200, &format!(r#"{{"pspReference":"{}","resultCode":"Error"}}"#, intent.id))
            }
            _ if odd == Some(Oddity::ChargedThen500) => {
                error(500, "905", "payment details are not supported")
            }
            Done::Failed => error(500, "905", "payment details are not supported"),
            Done::Intent(intent) => {
                let code = if intent.status == Status::Processing { "Received" } else { "Authorised" };
                plain(
                    200,
                    &format!(r#"{{"pspReference":"{}","resultCode":"{code}","amount":{amount}}}"#, intent.id),
                )
            }
            Done::Refund(refund) => plain(
                201,
                &format!(r#"{{"pspReference":"{}","status":"received","amount":{amount}}}"#, refund.id),
            ),
            Done::Declined(Some(intent)) => plain(
                200,
                &format!(
                    r#"{{"pspReference":"{}","resultCode":"Refused","refusalReason":"Refused","refusalReasonCode":"2"}}"#,
                    intent.id
                ),
            ),
            // It makes no customers.
            Done::Declined(None)
            | Done::State(_)
            | Done::TooMuch
            | Done::Disputed
            | Done::Missing
            | Done::Customer(_) => error(422, "167", "original reference required for this operation"),
        };
        self.keys.store(key, &answer);
        let garbled = odd == Some(Oddity::Garbled);
        (if garbled { plain(200, "<html>a proxy's page</html>") } else { answer }, later)
    }
    /// A capture or a void is only received.
    fn receive(
        &mut self,
        key: &str,
        intent: &str,
        asked: &Asked,
        amount: &str,
        odd: Option<Oddity>,
    ) -> (HttpAnswer, Option<Later>) {
        if self.ledger.intent(intent).is_none() {
            let answer = error(422, "167", "original reference required for this operation");
            self.keys.store(key, &answer);
            return (answer, None);
        }
        let (ms, good) = match odd {
            Some(Oddity::Processing { ms, charged }) => (ms, charged),
            Some(Oddity::RolledForward { ms }) => (ms, true),
            odd => (WORK_MS, odd != Some(Oddity::Declined)),
        };
        let later = Later::Modify { by: key.to_owned(), asked: asked.clone(), ms, good };
        let amount = if amount == "null" { String::new() } else { format!(r#","amount":{amount}"#) };
        let answer = match odd {
            Some(Oddity::ChargedThen500 | Oddity::RolledForward { .. }) => {
                error(500, "905", "payment details are not supported")
            }
            _ => plain(201, &format!(r#"{{"pspReference":"M{key}","status":"received"{amount}}}"#)),
        };
        self.keys.store(key, &answer);
        let is_garbled = odd == Some(Oddity::Garbled);
        (if is_garbled { plain(200, "<html>a proxy's page</html>") } else { answer }, Some(later))
    }
}
