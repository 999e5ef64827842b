//! What the codecs of all providers take and give.

use serde::{Deserialize, Serialize};

use crate::engine::Outcome;
use crate::payment::money::Currency;
use once::call::RefusalScope;

/// What begins a payment.
pub struct Authorization<'a> {
    /// In our minor units.
    pub amount_minor: u64,
    /// Of the amount.
    pub currency: Currency,
    /// Whether the money is taken at once.
    pub capture: bool,
    /// The token of what pays.
    pub payment_method: &'a str,
    /// The customer to whom it belongs.
    pub customer: Option<&'a str>,
    /// The merchant's account with the provider: Adyen's merchant account, or a connected account at Stripe.
    pub merchant_account: Option<&'a str>,
    /// For the merchant.
    pub description: Option<&'a str>,
    /// The merchant's own data.
    pub metadata: &'a [(String, String)],
    /// Where the bank's page sends the person back. Without it nobody is there to go to that page.
    pub return_url: Option<&'a str>,
    /// The payment's own page, for a provider that wants an address to come back to although nobody is sent away.
    pub payment_url: &'a str,
    /// Our id of what is paid.
    pub resource: &'a str,
    /// The idempotency key, by which a look-up finds the payment.
    pub provider_key: &'a str,
}

/// An HTTP answer of a provider, as far as it matters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HttpAnswer {
    /// The status.
    pub status: u16,
    /// Whether it says that a retry helps: `Stripe-Should-Retry`, or Adyen's `transient-error`. `None` if it does not say.
    pub should_retry: Option<bool>,
    /// `Retry-After`, in ms.
    pub retry_after_ms: Option<u64>,
    /// Whether the answer is a stored one (`Idempotent-Replayed: true`).
    pub replayed: bool,
    /// The provider's id of the request.
    pub request_id: Option<String>,
    /// The body.
    pub body: String,
}

/// Why a provider does not take an amount. Each says what to send instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnsupportedMoney {
    /// Not in this currency.
    Currency(String),
    /// In this currency, but not this amount.
    Amount(String),
}

impl UnsupportedMoney {
    /// What to send instead.
    pub fn message(&self) -> &str {
        let (Self::Currency(message) | Self::Amount(message)) = self;
        message
    }
}

pub(crate) fn not_executed(answer: &HttpAnswer, scope: RefusalScope, reason: &str) -> Outcome {
    Outcome::NotExecuted {
        retry_after_ms: answer.retry_after_ms,
        scope,
        reason: format!("{reason} ({})", answer.status),
    }
}

pub(crate) fn unknown(answer: &HttpAnswer, answer_is_stored: bool, reason: &str) -> Outcome {
    // An explicit "do not retry" on an unclear answer leaves only the look-up; where there is none, a webhook or a person.
    let answer_is_stored = answer_is_stored || answer.should_retry == Some(false);
    Outcome::Unknown { answer_is_stored, reason: format!("{reason} ({})", answer.status) }
}

/// The provider itself has failed while it executed.
pub(crate) fn indeterminate(answer: &HttpAnswer, reason: &str) -> Outcome {
    let answer_is_stored = answer.replayed || answer.should_retry == Some(false);
    Outcome::Indeterminate { answer_is_stored, reason: format!("{reason} ({})", answer.status) }
}

/// Letters, digits, `-` and `_`: what may stand in an address as it is.
pub(crate) fn is_plain(id: &str) -> bool {
    !id.is_empty() && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
}
