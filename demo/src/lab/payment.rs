//! The protected payment, as the payments API tells of it: its key, with all that was done under it, and how the payment stands.

use chrono::DateTime;
use serde::{Deserialize, Deserializer};

use super::ClientOutcome;

/// What `GET /idempotency-keys/{key}` says.
#[derive(Clone, Debug, Deserialize)]
pub struct Key {
    status: String,
    #[serde(rename = "created_at", deserialize_with = "ms")]
    created_at_ms: u64,
    /// The path of the payment.
    pub resource: String,
    timeline: Vec<Entry>,
}

/// A line of a key's timeline.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct Entry {
    /// In ms since the epoch.
    #[serde(rename = "at", deserialize_with = "ms")]
    pub at_ms: u64,
    /// What happened.
    pub event: String,
    /// To what, or why.
    pub detail: String,
}

/// What `GET /payments/{id}` says.
#[derive(Clone, Debug, Deserialize)]
pub struct Payment {
    status: String,
    next_action: Option<NextAction>,
}

/// What the person has to do.
#[derive(Clone, Debug, Deserialize)]
pub struct NextAction {
    redirect_to_url: Option<Redirect>,
}

#[derive(Clone, Debug, Deserialize)]
struct Redirect {
    url: String,
}

impl NextAction {
    /// The bank's page.
    pub fn bank_page(self) -> Option<String> {
        self.redirect_to_url.map(|redirect| redirect.url)
    }
}

/// How the protected payment stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PaymentView {
    /// When its key was first used, in ms since the epoch.
    pub since_ms: u64,
    /// Whether it goes on without anybody.
    pub is_open: bool,
    /// The bank's page, while that waits for the person.
    pub bank_page: Option<String>,
    /// All that was done under its key.
    pub timeline: Vec<Entry>,
}

impl PaymentView {
    /// Puts together what the key and the payment say. There is no payment yet in the first moments of a key.
    pub fn of(key: Key, payment: Option<Payment>) -> Self {
        let is_over = ["complete", "expired"].contains(&key.status.as_str());
        let is_processing = payment.as_ref().is_none_or(|payment| payment.status == "processing");
        Self {
            since_ms: key.created_at_ms,
            is_open: !is_over || is_processing,
            bank_page: payment.and_then(|payment| payment.next_action?.bank_page()),
            timeline: key.timeline,
        }
    }
}

/// What a client makes of an answer to `POST /payments`.
pub fn saw(status: u16, is_replayed: bool, body: &str) -> ClientOutcome {
    #[derive(Deserialize)]
    struct Problem {
        r#type: String,
    }
    if status == 402 {
        return ClientOutcome::Declined;
    }
    if let Ok(Problem { r#type }) = serde_json::from_str(body) {
        return if r#type == "/problems/interrupted" {
            ClientOutcome::Crashed
        } else {
            ClientOutcome::Failed
        };
    }
    match serde_json::from_str(body) {
        Ok(Payment { status, .. }) if status == "succeeded" && is_replayed => ClientOutcome::Replayed,
        Ok(Payment { status, .. }) if status == "succeeded" => ClientOutcome::Paid,
        Ok(Payment { status, .. }) if status == "requires_action" => ClientOutcome::BankPage,
        _ => ClientOutcome::Failed,
    }
}

/// A time as the API writes it, in ms since the epoch.
fn ms<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let text = String::deserialize(deserializer)?;
    let at = DateTime::parse_from_rfc3339(&text).map_err(serde::de::Error::custom)?;
    u64::try_from(at.timestamp_millis()).map_err(serde::de::Error::custom)
}
