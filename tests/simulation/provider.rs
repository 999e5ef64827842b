//! An independent model of Stripe: PaymentIntents, their list, and idempotency as Stripe really does it.
//!
//! A key is bound to its parameters and kept for 24 h or longer; then it is pruned, and executes anew. Stored: every
//! result of an execution, 402 and 500 too. Not stored: 401, 429, 503, the 409 of a key in use, validation 400s.

use std::collections::BTreeMap;

use payments::providers::HttpAnswer;

use crate::faults::{HOUR, Oddity};

enum Memory {
    Executing,
    Stored { status: u16, should_retry: Option<bool>, body: String },
}

struct KeyEntry {
    parameters: String,
    /// What they ask for.
    amount: u64,
    pruned_at_ms: u64,
    memory: Memory,
}

#[derive(Clone)]
struct Intent {
    number: u64,
    created_s: u64,
    status: &'static str,
    amount: u64,
    idempotency_key: String,
    /// Lists do not show our metadata before.
    nameless_until_ms: u64,
}

/// What an arriving request meets.
pub(crate) enum Reaction {
    /// An answer at once.
    Answer(HttpAnswer),
    /// Its execution begins.
    Executing,
}

/// What an execution does.
pub(crate) struct Executed {
    pub(crate) answer: HttpAnswer,
    /// Whether money moved.
    pub(crate) charged: bool,
    /// The payment that is still to be decided.
    pub(crate) processing: Option<u64>,
}

/// What it counts for the report.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) replayed: u64,
    pub(crate) in_use: u64,
    pub(crate) pruned: u64,
}

/// The provider.
pub(crate) struct Provider {
    keys: BTreeMap<String, KeyEntry>,
    intents: Vec<Intent>,
    /// How long beyond 24 h a key is kept.
    pub(crate) kept_longer_ms: u64,
    /// How many payments of others appear beside each of ours.
    pub(crate) strangers: u64,
    /// The list shows a payment while it is being executed.
    pub(crate) shows_unfinished: bool,
    pub(crate) tally: Tally,
}

/// A payment that is being executed: nobody has said no, and nobody yes.
const UNFINISHED: &str = "unfinished";
/// A payment that nothing shows: the provider failed, and has still to complete it.
const HIDDEN: &str = "hidden";

impl Provider {
    pub(crate) fn new(kept_longer_ms: u64, strangers: u64) -> Self {
        Self {
            keys: BTreeMap::new(),
            intents: Vec::new(),
            kept_longer_ms,
            strangers,
            shows_unfinished: strangers > 0,
            tally: Tally::default(),
        }
    }

    /// `POST /v1/payment_intents` arrives.
    pub(crate) fn arrive(
        &mut self,
        now_ms: u64,
        key: &str,
        parameters: &str,
        odd: Option<Oddity>,
    ) -> Reaction {
        match odd {
            Some(Oddity::RateLimited { retry_after_ms }) => {
                let mut answer = error(429, "invalid_request_error", Some("rate_limit"));
                answer.retry_after_ms = Some(retry_after_ms);
                return Reaction::Answer(answer);
            }
            Some(Oddity::Unauthorized) => return Reaction::Answer(error(401, "invalid_request_error", None)),
            Some(Oddity::Unavailable) => return Reaction::Answer(plain(503, "upstream connect error")),
            _ => {}
        }
        if self.keys.get(key).is_some_and(|entry| entry.pruned_at_ms <= now_ms) {
            self.keys.remove(key);
            self.tally.pruned += 1;
        }
        if let Some(entry) = self.keys.get(key) {
            if entry.parameters != parameters {
                return Reaction::Answer(error(400, "idempotency_error", None));
            }
            return Reaction::Answer(match &entry.memory {
                Memory::Executing => {
                    self.tally.in_use += 1;
                    error(409, "invalid_request_error", Some("idempotency_key_in_use"))
                }
                Memory::Stored { status, should_retry, body } => {
                    self.tally.replayed += 1;
                    HttpAnswer { should_retry: *should_retry, replayed: true, ..plain(*status, body) }
                }
            });
        }
        if odd == Some(Oddity::Hiccup) {
            let answer = error(400, "invalid_request_error", Some("try_again"));
            return Reaction::Answer(HttpAnswer { should_retry: Some(true), ..answer });
        }
        if odd == Some(Oddity::Invalid) {
            return Reaction::Answer(error(400, "invalid_request_error", Some("account_invalid")));
        }
        let entry = KeyEntry {
            parameters: parameters.to_owned(),
            amount: amount(parameters),
            pruned_at_ms: now_ms + 24 * HOUR + self.kept_longer_ms,
            memory: Memory::Executing,
        };
        self.keys.insert(key.to_owned(), entry);
        if self.shows_unfinished {
            self.add(now_ms, key, UNFINISHED);
        }
        Reaction::Executing
    }

    /// The execution that an arrival began ends. `since_ms` is when it began.
    pub(crate) fn execute(&mut self, since_ms: u64, key: &str, odd: Option<Oddity>) -> Executed {
        let (status, should_retry, intent_status) = match odd {
            Some(Oddity::ChargedThen500) => (500, Some(true), Some("succeeded")),
            Some(Oddity::Uncharged500) => (500, None, None),
            Some(Oddity::Uncharged500Final) => (500, Some(false), None),
            Some(Oddity::Declined) => (402, Some(false), Some("requires_payment_method")),
            Some(Oddity::Processing { .. }) => (200, None, Some("processing")),
            Some(Oddity::RolledForward { .. }) => (500, None, Some(HIDDEN)),
            Some(Oddity::LeftOpen { .. }) => (200, Some(false), Some("requires_action")),
            _ => (200, Some(false), Some("succeeded")),
        };
        self.intents.retain(|intent| intent.status != UNFINISHED || intent.idempotency_key != key);
        let number = intent_status.map(|intent_status| self.add(since_ms, key, intent_status));
        let made = self.intents.iter_mut().find(|intent| Some(intent.number) == number);
        if let (Some(intent), Some(Oddity::OtherAmount { ms })) = (made, odd) {
            intent.nameless_until_ms = since_ms + ms;
        }
        let body = match (status, number.and_then(|number| self.intents.iter().find(|i| i.number == number)))
        {
            (200, Some(intent)) if matches!(odd, Some(Oddity::OtherAmount { .. })) => {
                Intent { amount: intent.amount - 1, ..intent.clone() }.to_json()
            }
            (200, Some(intent)) => intent.to_json(),
            (402, Some(intent)) => format!(
                r#"{{"error":{{"type":"card_error","code":"card_declined","decline_code":"generic_decline","message":"Your card was declined.","payment_intent":{}}}}}"#,
                intent.to_json()
            ),
            _ => r#"{"error":{"type":"api_error","message":"Something went wrong."}}"#.to_owned(),
        };
        if let Some(entry) = self.keys.get_mut(key) {
            entry.memory = Memory::Stored { status, should_retry, body: body.clone() };
        }
        let answer = if odd == Some(Oddity::Garbled) {
            plain(200, "<html>a proxy's page</html>")
        } else {
            HttpAnswer { should_retry, ..plain(status, &body) }
        };
        Executed {
            answer,
            charged: intent_status == Some("succeeded"),
            processing: number
                .filter(|_| matches!(intent_status, Some("processing" | HIDDEN | "requires_action"))),
        }
    }

    /// A payment that is open is decided. Gives whether it was still open.
    pub(crate) fn decide(&mut self, number: u64, charged: bool) -> bool {
        let is_it = |intent: &&mut Intent| intent.number == number && intent.status != "canceled";
        let Some(intent) = self.intents.iter_mut().find(is_it) else { return false };
        intent.status = if charged { "succeeded" } else { "requires_payment_method" };
        true
    }

    /// `POST /v1/payment_intents/{id}/cancel`
    pub(crate) fn cancel(&mut self, path: &str) -> HttpAnswer {
        let id = path.trim_end_matches("/cancel");
        let Some(intent) = self.intents.iter_mut().find(|intent| id.ends_with(&format!("/{}", intent.id())))
        else {
            return error(404, "invalid_request_error", Some("resource_missing"));
        };
        match intent.status {
            UNFINISHED => return error(429, "invalid_request_error", Some("lock_timeout")),
            "succeeded" | "canceled" => {
                let intent = intent.to_json();
                let error = r#""type":"invalid_request_error","code":"payment_intent_unexpected_state","message":"No.""#;
                return plain(400, &format!(r#"{{"error":{{{error},"payment_intent":{intent}}}}}"#));
            }
            _ => intent.status = "canceled",
        }
        plain(200, &intent.to_json())
    }

    fn add(&mut self, now_ms: u64, key: &str, status: &'static str) -> u64 {
        let created_s = now_ms / 1000;
        let amount = self.keys.get(key).map_or(0, |entry| entry.amount);
        let mut push = |idempotency_key: &str, status| {
            let number = 1 + self.intents.last().map_or(0, |intent| intent.number);
            let idempotency_key = idempotency_key.to_owned();
            let nameless_until_ms = 0;
            self.intents.push(Intent {
                number,
                created_s,
                status,
                amount,
                idempotency_key,
                nameless_until_ms,
            });
            number
        };
        for _ in 0..self.strangers / 2 {
            push("somebody_else", "succeeded");
        }
        let ours = push(key, status);
        for _ in 0..self.strangers / 2 {
            push("somebody_else", "requires_payment_method");
        }
        ours
    }

    /// `GET /v1/payment_intents?…`: newest first; or one of them.
    pub(crate) fn get(&self, now_ms: u64, path: &str) -> HttpAnswer {
        let Some((_, query)) = path.split_once('?') else {
            let is_it =
                |intent: &&Intent| path.ends_with(&format!("/{}", intent.id())) && intent.status != HIDDEN;
            return match self.intents.iter().find(is_it) {
                Some(intent) => plain(200, &intent.to_json()),
                None => error(404, "invalid_request_error", Some("resource_missing")),
            };
        };
        let field = |name: &str| {
            query.split('&').filter_map(|pair| pair.split_once('=')).find_map(|(key, value)| {
                let key = key.replace("%5B", "[").replace("%5D", "]");
                (key == name).then(|| value.to_owned())
            })
        };
        let number = |name: &str, default: u64| field(name).and_then(|v| v.parse().ok()).unwrap_or(default);
        let (from_s, to_s) = (number("created[gte]", 0), number("created[lte]", u64::MAX));
        let limit = usize::try_from(number("limit", 10)).unwrap_or(10);
        let after = field("starting_after");

        let mut listed: Vec<&Intent> =
            self.intents.iter().filter(|intent| (from_s..=to_s).contains(&intent.created_s)).collect();
        listed.retain(|intent| intent.status != HIDDEN);
        listed.sort_by_key(|intent| std::cmp::Reverse((intent.created_s, intent.number)));
        let start = after.map_or(0, |after| {
            listed.iter().position(|intent| intent.id() == after).map_or(listed.len(), |at| at + 1)
        });
        let rest = listed.get(start..).unwrap_or_default();
        let page: Vec<String> = rest.iter().take(limit).map(|intent| intent.listed(now_ms)).collect();
        let body =
            format!(r#"{{"object":"list","data":[{}],"has_more":{}}}"#, page.join(","), rest.len() > limit);
        plain(200, &body)
    }
}

impl Intent {
    fn id(&self) -> String {
        format!("pi_{}", self.number)
    }

    fn listed(&self, now_ms: u64) -> String {
        if now_ms >= self.nameless_until_ms {
            return self.to_json();
        }
        Self { idempotency_key: String::new(), ..self.clone() }.to_json()
    }

    fn to_json(&self) -> String {
        let Self { number, created_s, amount, .. } = self;
        let status = if self.status == UNFINISHED { "requires_payment_method" } else { self.status };
        let idempotency_key = &self.idempotency_key;
        let received = if status == "succeeded" { *amount } else { 0 };
        let error = if self.status == "requires_payment_method" {
            r#"{"type":"card_error","code":"card_declined","message":"Your card was declined."}"#
        } else {
            "null"
        };
        format!(
            r#"{{"id":"pi_{number}","object":"payment_intent","created":{created_s},"status":"{status}","amount":{amount},"amount_received":{received},"currency":"usd","metadata":{{"idempotency_key":"{idempotency_key}"}},"last_payment_error":{error}}}"#
        )
    }
}

/// The amount that a charge's parameters ask for.
fn amount(parameters: &str) -> u64 {
    let (_, body) = parameters.split_once(' ').unwrap_or_default();
    let amount = body.split('&').find_map(|pair| pair.strip_prefix("amount="));
    amount.and_then(|amount| amount.parse().ok()).unwrap_or(0)
}

pub(crate) fn plain(status: u16, body: &str) -> HttpAnswer {
    HttpAnswer {
        status,
        should_retry: None,
        retry_after_ms: None,
        replayed: false,
        request_id: None,
        body: body.to_owned(),
    }
}

pub(crate) fn error(status: u16, kind: &str, code: Option<&str>) -> HttpAnswer {
    let code = code.map_or_else(|| "null".to_owned(), |code| format!("\"{code}\""));
    plain(status, &format!(r#"{{"error":{{"type":"{kind}","code":{code},"message":"refused"}}}}"#))
}
