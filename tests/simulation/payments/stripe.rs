//! Stripe over the books: PaymentIntents, captures, cancellations, refunds, their lists, and its rules for keys.
//!
//! A key is bound to its parameters and kept for 24 h or longer. Stored: every result of an execution, 402 and 500 too.
//! Not stored: 401, 429, 503, the 409 of a key in use, validation 400s; a 400 about the payment's state is stored or not.

use std::collections::BTreeMap;

use payments::providers::HttpAnswer;

use super::bank::{
    Asked, Card, Customer, Dispute, Done, Intent, Keys, Later, Ledger, Memory, Refund, Status,
};
use super::elsewhere::DASHBOARD;
use crate::faults::Oddity;
use crate::history::{error, plain};

pub(crate) struct Stripe {
    /// Whose books these are.
    pub(crate) account: &'static str,
    pub(crate) ledger: Ledger,
    pub(crate) keys: Keys,
    /// Whether a 400 about the payment's state is stored under the key.
    pub(crate) stores_refusals: bool,
    /// Entries on a page of a list at most.
    pub(crate) page_max: usize,
    /// Payments that are being executed, by their keys: the list shows them, and nobody has said no.
    pub(crate) unfinished: BTreeMap<String, Intent>,
}

/// The fields of a form body.
fn fields(body: &str) -> Vec<(String, String)> {
    serde_urlencoded::from_str(body).unwrap_or_default()
}

fn field<'a>(fields: &'a [(String, String)], name: &str) -> Option<&'a str> {
    fields.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
}

fn read(path: &str, body: &str) -> Option<Asked> {
    let fields = fields(body);
    let text = |name: &str| field(&fields, name).unwrap_or_default().to_owned();
    let parts: Vec<&str> = path.trim_start_matches("/v1/").split('/').collect();
    match parts.as_slice() {
        ["payment_intents"] => Some(Asked::Create {
            resource: text("metadata[resource]"),
            amount: text("amount").parse().ok()?,
            currency: text("currency"),
            manual: text("capture_method") == "manual",
            card: card(&text("payment_method")),
            page: field(&fields, "return_url").is_some(),
        }),
        ["payment_intents", intent, "capture"] => Some(Asked::Capture {
            intent: (*intent).to_owned(),
            amount: text("amount_to_capture").parse().ok()?,
        }),
        ["payment_intents", intent, "cancel"] => Some(Asked::Cancel { intent: (*intent).to_owned() }),
        ["refunds"] => {
            Some(Asked::Refund { intent: text("payment_intent"), amount: text("amount").parse().ok()? })
        }
        ["customers", rest @ ..] => Some(Asked::Customer {
            id: rest.first().map(|id| (*id).to_owned()),
            email: text("email"),
            name: text("name"),
        }),
        _ => None,
    }
}

fn card(token: &str) -> Card {
    match token {
        "pm_card_visa_chargeDeclined" => Card::Declined,
        "pm_card_threeDSecure2Required" => Card::Page,
        "pm_card_processing" => Card::Slow,
        "pm_card_pendingRefund" => Card::PendingRefund,
        "pm_card_refundFail" => Card::FailingRefund,
        _ => Card::Good,
    }
}

impl Stripe {
    /// A `POST` arrives: an answer at once, or its execution begins.
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
                let answer = error(429, "invalid_request_error", Some("rate_limit"));
                return Some(HttpAnswer { retry_after_ms: Some(retry_after_ms), ..answer });
            }
            Some(Oddity::Unauthorized) => return Some(error(401, "invalid_request_error", None)),
            Some(Oddity::Unavailable) => return Some(plain(503, "upstream connect error")),
            _ => {}
        }
        let parameters = format!("{path} {body}");
        match self.keys.recall(now_ms, key, &parameters) {
            Memory::Stored(answer) => return Some(answer),
            Memory::Executing => {
                return Some(error(409, "invalid_request_error", Some("idempotency_key_in_use")));
            }
            Memory::Mismatch => return Some(error(400, "idempotency_error", None)),
            Memory::Nothing => {}
        }
        match odd {
            Some(Oddity::Hiccup) => {
                let answer = error(400, "invalid_request_error", Some("try_again"));
                return Some(HttpAnswer { should_retry: Some(true), ..answer });
            }
            Some(Oddity::Invalid) => {
                return Some(error(400, "invalid_request_error", Some("account_invalid")));
            }
            _ => {}
        }
        self.keys.begin(now_ms, key, &parameters);
        if let Some(Asked::Create { resource, amount, currency, manual, card, .. }) = read(path, body) {
            // Far behind the numbers of what is done.
            let number = 1_000_000 + self.unfinished.len() as u64;
            let unfinished = Intent {
                id: format!("pi_x{number}"),
                number,
                created_s: now_ms / 1000,
                by: key.to_owned(),
                resource,
                amount,
                currency,
                manual,
                card,
                status: Status::Refused,
                captured: 0,
                taken: 0,
                is_revived: false,
                was_held: false,
                moved_by: None,
                has_erred: false,
                has_no_page: false,
                nameless_until_ms: 0,
                listed_from_ms: 0,
            };
            self.unfinished.insert(key.to_owned(), unfinished);
        }
        None
    }

    /// The execution ends that began at `since_ms`.
    pub(crate) fn execute(
        &mut self,
        since_ms: u64,
        key: &str,
        path: &str,
        body: &str,
        odd: Option<Oddity>,
    ) -> (HttpAnswer, Option<Later>) {
        self.unfinished.remove(key);
        let Some(asked) = read(path, body) else {
            self.keys.forget(key);
            return (error(404, "invalid_request_error", Some("resource_missing")), None);
        };
        let (done, later) = self.ledger.perform(since_ms, key, asked, odd);
        let is_other = matches!(odd, Some(Oddity::OtherAmount { .. }));
        let refused = |answer: HttpAnswer| HttpAnswer { should_retry: Some(false), ..answer };
        let (answer, is_stored) = match &done {
            _ if odd == Some(Oddity::ChargedThen500) => {
                (HttpAnswer { should_retry: Some(true), ..error(500, "api_error", None) }, true)
            }
            Done::Failed => {
                let should_retry = (odd == Some(Oddity::Uncharged500Final)).then_some(false);
                (HttpAnswer { should_retry, ..error(500, "api_error", None) }, true)
            }
            Done::Intent(intent) if is_other => {
                let (amount, captured) = (intent.amount - 1, intent.captured.saturating_sub(1));
                let other = Intent { amount, captured, ..intent.clone() };
                (refused(plain(200, &self.intent(&other))), true)
            }
            Done::Refund(refund) if is_other => {
                let other = Refund { amount: refund.amount - 1, ..refund.clone() };
                (refused(plain(200, &refund_json(&other))), true)
            }
            Done::Customer(customer) => (refused(plain(200, &customer.to_json(since_ms))), true),
            Done::Intent(intent) => (refused(plain(200, &self.intent(intent))), true),
            Done::Refund(refund) => (refused(plain(200, &refund_json(refund))), true),
            Done::Declined(intent) => {
                let code = match intent {
                    Some(intent) if intent.card == Card::Page => "authentication_required",
                    _ => "card_declined",
                };
                let intent = intent.as_ref().map_or("null".to_owned(), |intent| self.intent(intent));
                let body = format!(
                    r#"{{"error":{{"type":"card_error","code":"{code}","decline_code":"generic_decline","message":"Your card was declined.","payment_intent":{intent}}}}}"#
                );
                (refused(plain(402, &body)), true)
            }
            Done::State(intent) => {
                (refused(plain(400, &self.unexpected_state(intent))), self.stores_refusals)
            }
            Done::Disputed => {
                (refused(error(400, "invalid_request_error", Some("charge_disputed"))), self.stores_refusals)
            }
            Done::TooMuch => (refused(error(400, "invalid_request_error", None)), self.stores_refusals),
            Done::Missing => {
                (refused(error(404, "invalid_request_error", Some("resource_missing"))), self.stores_refusals)
            }
        };
        if is_stored {
            self.keys.store(key, &answer);
        } else {
            self.keys.forget(key);
        }
        let garbled = odd == Some(Oddity::Garbled);
        (if garbled { plain(200, "<html>a proxy's page</html>") } else { answer }, later)
    }

    fn intent(&self, intent: &Intent) -> String {
        let Intent { id, created_s, resource, amount, currency, captured, .. } = intent;
        let by = &intent.by;
        let status = match intent.status {
            Status::Action => "requires_action",
            Status::Processing => "processing",
            Status::Reserved => "requires_capture",
            Status::Captured => "succeeded",
            Status::Canceled | Status::Expired | Status::CaptureFailed => "canceled",
            Status::Refused => "requires_payment_method",
        };
        // Who has canceled what was never held has no charge.
        let charge = match intent.status {
            Status::Reserved | Status::Captured => r#""ch_1""#,
            Status::Canceled | Status::Expired if intent.was_held => r#""ch_1""#,
            _ => "null",
        };
        let charge = match self.ledger.dispute_of(id) {
            Some(_) => r#"{"id":"ch_1","disputed":true}"#,
            None => charge,
        };
        let reason = if intent.status == Status::Expired { r#""automatic""# } else { "null" };
        let capturable = if intent.status == Status::Reserved { *amount } else { 0 };
        let error = match intent.status {
            Status::Refused if !self.unfinished.contains_key(&intent.by) => {
                r#"{"type":"card_error","code":"card_declined","message":"Your card was declined."}"#
            }
            _ => "null",
        };
        let action = match intent.status {
            Status::Action if !intent.has_no_page => {
                format!(
                    r#"{{"type":"redirect_to_url","redirect_to_url":{{"url":"https://bank.example/{id}","return_url":"x"}}}}"#
                )
            }
            _ => "null".to_owned(),
        };
        format!(
            r#"{{"id":"{id}","object":"payment_intent","latest_charge":{charge},"created":{created_s},"status":"{status}","cancellation_reason":{reason},"amount":{amount},"amount_received":{captured},"amount_capturable":{capturable},"currency":"{currency}","metadata":{{"resource":"{resource}","idempotency_key":"{by}"}},"last_payment_error":{error},"next_action":{action}}}"#
        )
    }

    /// A `POST` without a key: `…/cancel`.
    pub(crate) fn cancel(&mut self, path: &str) -> HttpAnswer {
        let Some(asked) = read(path, "") else { return error(404, "invalid_request_error", None) };
        match self.ledger.perform(0, "", asked, None).0 {
            Done::Intent(intent) => plain(200, &self.intent(&intent)),
            Done::State(intent) => plain(400, &self.unexpected_state(&intent)),
            _ => error(404, "invalid_request_error", Some("resource_missing")),
        }
    }

    fn unexpected_state(&self, intent: &Intent) -> String {
        format!(
            r#"{{"error":{{"type":"invalid_request_error","code":"payment_intent_unexpected_state","message":"Not in this state.","payment_intent":{}}}}}"#,
            self.intent(intent)
        )
    }

    /// A `GET`: one object, or a page of a list, newest first.
    pub(crate) fn get(&self, now_ms: u64, path: &str) -> HttpAnswer {
        let missing = || error(404, "invalid_request_error", Some("resource_missing"));
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let query = fields(query);
        let parts: Vec<&str> = path.trim_start_matches("/v1/").split('/').collect();
        match parts.as_slice() {
            ["account"] => plain(200, &format!(r#"{{"id":"{}","object":"account"}}"#, self.account)),
            ["payment_intents", id] => {
                self.ledger.intent(id).map_or_else(missing, |intent| plain(200, &self.intent(intent)))
            }
            ["refunds", id] => {
                let refund = self.ledger.refunds.iter().find(|refund| refund.id == *id);
                refund.map_or_else(missing, |refund| plain(200, &refund_json(refund)))
            }
            ["payment_intents"] => {
                let second = |name: &str| field(&query, name).and_then(|value| value.parse::<u64>().ok());
                let range = second("created[gte]").unwrap_or(0)..=second("created[lte]").unwrap_or(u64::MAX);
                let all = self.ledger.intents.iter().chain(self.unfinished.values());
                let is_listed =
                    |intent: &&Intent| range.contains(&intent.created_s) && now_ms >= intent.listed_from_ms;
                let mut listed: Vec<&Intent> = all.filter(is_listed).collect();
                listed.sort_by_key(|intent| std::cmp::Reverse((intent.created_s, intent.number)));
                self.page(
                    &query,
                    &listed,
                    |intent| &intent.id,
                    |intent| {
                        let is_named = now_ms >= intent.nameless_until_ms;
                        let by = if is_named { intent.by.clone() } else { String::new() };
                        self.intent(&Intent { by, ..intent.clone() })
                    },
                )
            }
            ["customers", id] => self
                .ledger
                .customer(id)
                .map_or_else(missing, |customer| plain(200, &customer.to_json(now_ms))),
            ["customers"] => {
                let email = field(&query, "email").unwrap_or_default();
                let second = |name: &str| field(&query, name).and_then(|value| value.parse::<u64>().ok());
                let range = second("created[gte]").unwrap_or(0)..=second("created[lte]").unwrap_or(u64::MAX);
                let is_listed = |customer: &&Customer| {
                    customer.email == email
                        && range.contains(&customer.created_s)
                        && now_ms >= customer.listed_from_ms
                };
                let listed: Vec<&Customer> = self.ledger.customers.iter().rev().filter(is_listed).collect();
                self.page(&query, &listed, |customer| &customer.id, |customer| customer.to_json(now_ms))
            }
            ["disputes"] => {
                let of = field(&query, "payment_intent").unwrap_or_default();
                let listed: Vec<&Dispute> = self.ledger.dispute_of(of).into_iter().collect();
                self.page(&query, &listed, |dispute| &dispute.id, dispute_json)
            }
            ["refunds"] => {
                let of = field(&query, "payment_intent").unwrap_or_default();
                let mut listed: Vec<&Refund> =
                    self.ledger.refunds.iter().filter(|refund| refund.intent == of).collect();
                listed.sort_by_key(|refund| std::cmp::Reverse(refund.number));
                self.page(
                    &query,
                    &listed,
                    |refund| &refund.id,
                    |refund| {
                        let is_named = now_ms >= refund.nameless_until_ms;
                        let by = if is_named { refund.by.clone() } else { String::new() };
                        refund_json(&Refund { by, ..refund.clone() })
                    },
                )
            }
            _ => missing(),
        }
    }

    fn page<T>(
        &self,
        query: &[(String, String)],
        listed: &[&T],
        id: impl Fn(&T) -> &String,
        json: impl Fn(&T) -> String,
    ) -> HttpAnswer {
        let start = match field(query, "starting_after") {
            None => 0,
            Some(after) => match listed.iter().position(|entry| id(entry) == after) {
                Some(at) => at + 1,
                None => return error(400, "invalid_request_error", Some("resource_missing")),
            },
        };
        let limit = field(query, "limit").and_then(|limit| limit.parse().ok()).unwrap_or(10usize);
        let rest = &listed[start..];
        let limit = limit.min(self.page_max);
        let entries: Vec<String> = rest.iter().take(limit).map(|entry| json(entry)).collect();
        let has_more = rest.len() > limit;
        plain(200, &format!(r#"{{"object":"list","data":[{}],"has_more":{has_more}}}"#, entries.join(",")))
    }
}

fn dispute_json(dispute: &Dispute) -> String {
    let Dispute { id, intent, amount, status, .. } = dispute;
    let moved = match dispute.status {
        "needs_response" | "lost" => format!(r#"{{"amount":-{amount}}}"#),
        "won" => format!(r#"{{"amount":-{amount}}},{{"amount":{amount}}}"#),
        _ => String::new(),
    };
    let is_refundable = dispute.permits_refunds();
    format!(
        r#"{{"id":"{id}","object":"dispute","amount":{amount},"payment_intent":"{intent}","status":"{status}","is_charge_refundable":{is_refundable},"balance_transactions":[{moved}]}}"#
    )
}

fn refund_json(refund: &Refund) -> String {
    let Refund { id, intent, amount, by, status, .. } = refund;
    let metadata = match by.starts_with(DASHBOARD) {
        true => String::new(),
        false => format!(r#""idempotency_key":"{by}""#),
    };
    let reason = if *status == "failed" { r#""declined""# } else { "null" };
    format!(
        r#"{{"id":"{id}","object":"refund","status":"{status}","amount":{amount},"payment_intent":"{intent}","metadata":{{{metadata}}},"failure_reason":{reason}}}"#
    )
}
