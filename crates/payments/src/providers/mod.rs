//! The payment providers, and the router between them. Each provider encodes an operation into bytes and reads the meaning
//! of an answer; both are pure. `transport` (in the Worker only) carries the bytes.
//!
//! A payment's first call chooses the provider; it is written down with the payment and with every call, and whatever
//! comes later goes there. Only a new try, after the last has failed for good, may choose another one.

pub mod adyen;
pub mod result;
pub mod stripe;

use serde::{Deserialize, Serialize};

use crate::flows::engine::{LookUp, Outcome, ProviderCall, ProviderReply};
use crate::payment::check::{StatusQuery, StatusReply};
use crate::payment::money::{AmountMinor, Currency};
use crate::payment::{Payment, Refund};
use crate::providers::result::CallKind;
use once::call::{FrozenRequest, RefusalScope};
use once::context::{Bug, Times};

/// Where a call goes. Written down with the call: a retry never moves to another provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Provider {
    /// [Stripe](https://docs.stripe.com/api).
    Stripe,
    /// [Adyen](https://docs.adyen.com/api-explorer/Checkout/latest/overview).
    Adyen,
}

/// What begins a payment.
pub struct Authorization<'a> {
    /// In our minor units.
    pub amount_minor: u32,
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
    pub derived_key: &'a str,
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

impl Provider {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Stripe, Self::Adyen];

    /// The name as stored and shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stripe => "stripe",
            Self::Adyen => "adyen",
        }
    }

    /// From the stored name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|provider| provider.as_str() == text)
    }

    /// The idempotency key that the provider gets, from the one that our ids make.
    pub(crate) fn derived_key(self, text: &str) -> String {
        match self {
            Self::Stripe => text.to_owned(),
            Self::Adyen => adyen::derived_key(text),
        }
    }

    /// Whether the provider takes this amount of a new payment, of a capture or of a refund: in its own minor units, exactly.
    pub fn check_amount(self, amount: AmountMinor, currency: Currency) -> Result<(), UnsupportedMoney> {
        match self {
            Self::Stripe => Ok(()),
            Self::Adyen => adyen::minor_units::to_adyen(amount.get(), currency).map(|_| ()),
        }
    }

    /// Whether it counts a currency in the same minor unit as we do.
    pub(crate) fn has_our_minor_unit(self, currency: Currency) -> bool {
        match self {
            Self::Stripe => true,
            Self::Adyen => adyen::minor_units::is_ours(currency),
        }
    }

    /// Whether a payment that was declined can still be paid there until it is canceled.
    pub(crate) const fn declined_stays_open(self) -> bool {
        matches!(self, Self::Stripe)
    }

    /// Begins a payment.
    pub(crate) fn authorize(
        self,
        authorization: &Authorization<'_>,
    ) -> Result<FrozenRequest, UnsupportedMoney> {
        match self {
            Self::Stripe => Ok(stripe::authorize(authorization)),
            Self::Adyen => adyen::authorize(authorization),
        }
    }

    /// Captures what was reserved, or a part of it.
    pub(crate) fn capture(
        self,
        payment: &Payment,
        amount_minor: u32,
        derived_key: &str,
    ) -> Result<FrozenRequest, Bug> {
        let id = known(payment)?;
        match self {
            Self::Stripe => {
                let account = payment.merchant_account.as_deref();
                Ok(stripe::capture(id, amount_minor, derived_key).for_account(account))
            }
            Self::Adyen => adyen::capture(id, payment, amount_minor, derived_key).map_err(not_checked),
        }
    }

    /// Gives up what was reserved.
    pub(crate) fn void(self, payment: &Payment, derived_key: &str) -> Result<FrozenRequest, Bug> {
        let id = known(payment)?;
        Ok(match self {
            Self::Stripe => stripe::void(id).for_account(payment.merchant_account.as_deref()),
            Self::Adyen => adyen::void(id, payment, derived_key),
        })
    }

    /// Gives money back.
    pub(crate) fn refund(
        self,
        payment: &Payment,
        refund: &Refund,
        derived_key: &str,
    ) -> Result<FrozenRequest, Bug> {
        let id = known(payment)?;
        match self {
            Self::Stripe => {
                let account = payment.merchant_account.as_deref();
                Ok(stripe::refund(id, &payment.id.to_string(), refund, derived_key).for_account(account))
            }
            Self::Adyen => adyen::refund(id, payment, refund, derived_key).map_err(not_checked),
        }
    }

    /// What an answer to a send of this call means.
    pub fn classify(self, call: &ProviderCall, answer: &HttpAnswer) -> Outcome {
        match self {
            Self::Stripe => stripe::classify(call, answer),
            Self::Adyen => adyen::classify(call, answer),
        }
    }

    /// What to ask (with `GET`) to find out whether this call was executed: the next page of its look-up; or first, of which
    /// account the configured credential is. `None` where the provider has nothing to ask; then only its webhooks tell, or a
    /// person.
    pub fn look_up_request(self, call: &ProviderCall) -> Option<FrozenRequest> {
        match self {
            Self::Stripe if call.asks_identity() => Some(stripe::identity(call)),
            Self::Stripe => Some(stripe::look_up(call)),
            Self::Adyen => None,
        }
    }

    /// What to send (with `POST`) to close what a call has left open, or may have, in the place of a look-up. It may be sent as often
    /// as one likes: what is canceled stays so.
    pub fn close_request(self, call: &ProviderCall) -> Option<FrozenRequest> {
        match self {
            Self::Stripe if call.asks_identity() => None,
            Self::Stripe => stripe::close(call),
            Self::Adyen => adyen::close(call),
        }
    }

    /// The idempotency key of that request, where asking again would be another cancel.
    pub fn close_key(self, call: &ProviderCall, request: &FrozenRequest) -> Option<String> {
        match self {
            Self::Stripe => None,
            Self::Adyen => Some(adyen::close_key(call, request)),
        }
    }

    /// What the answer to that page, or to [closing](Self::close_request), says.
    pub fn read_look_up(self, call: &ProviderCall, answer: &HttpAnswer) -> LookUp {
        match self {
            Self::Stripe if call.asks_identity() => LookUp::Identity(stripe::read_identity(call, answer)),
            Self::Stripe => stripe::read_page(call, answer),
            Self::Adyen => adyen::read_close(call, answer),
        }
    }

    /// Whether this can be the provider's id of what a call has made.
    pub fn check_id(self, call: &ProviderCall, id: &str) -> Result<(), String> {
        match self {
            Self::Stripe => stripe::by_hand::check_id(call, id),
            Self::Adyen => adyen::by_hand::check_id(id),
        }
    }

    /// What to ask (with `GET`) about what an operator says that a call has made. `None` where nothing can be asked.
    pub fn named_request(self, call: &ProviderCall, id: &str) -> Option<FrozenRequest> {
        match self {
            Self::Stripe => Some(stripe::by_hand::request(call, id)),
            Self::Adyen => None,
        }
    }

    /// The answer that a call would have had, if what the operator names is what it has made. `answer` is the provider's;
    /// without one the operator's word counts: `is_done`, or refused. An error says what is shown instead.
    pub fn read_named(
        self,
        call: &ProviderCall,
        id: &str,
        answer: Option<&HttpAnswer>,
        is_done: bool,
    ) -> Result<ProviderReply, String> {
        match (self, answer) {
            (Self::Stripe, Some(answer)) => stripe::by_hand::read(call, id, answer),
            (Self::Stripe, None) => Err("Stripe did not answer".to_owned()),
            (Self::Adyen, _) => adyen::by_hand::believed(call, id, is_done),
        }
    }

    /// By what a person finds a call on the provider's own pages.
    pub fn reference(self, call: &ProviderCall) -> Option<String> {
        match self {
            Self::Stripe => Some(call.derived_key.clone()),
            Self::Adyen => adyen::by_hand::reference(call),
        }
    }

    /// Whether the provider can be asked how a payment or a refund stands. Adyen says so by webhooks only.
    pub const fn answers_questions(self) -> bool {
        matches!(self, Self::Stripe)
    }

    /// What to ask (with `GET`) about a payment or a refund that is not decided.
    pub fn question_request(self, question: &StatusQuery) -> Option<FrozenRequest> {
        match self {
            Self::Stripe => Some(stripe::question(question)),
            Self::Adyen => None,
        }
    }

    /// What the answer to a question says.
    pub fn read_truth(self, question: &StatusQuery, answer: &HttpAnswer) -> StatusReply {
        match self {
            Self::Stripe => stripe::read_truth(question, answer),
            Self::Adyen => StatusReply::NoAnswer,
        }
    }
}

impl once::domain::Provider for Provider {
    type Kind = CallKind;

    fn window_ms(self, times: &Times) -> u64 {
        match self {
            Self::Stripe => times.provider_window_ms,
            Self::Adyen => adyen::WINDOW_MS,
        }
    }

    fn answers_questions(self) -> bool {
        self.answers_questions()
    }

    fn moves(self, kind: CallKind, request: &FrozenRequest) -> Option<String> {
        match self {
            Self::Stripe => stripe::payment_of(kind, request),
            Self::Adyen => None,
        }
    }

    fn tells_account(self, kind: CallKind, request: &FrozenRequest, made: Option<&str>) -> bool {
        match self {
            Self::Stripe => stripe::known_payment(kind, request, made).is_none(),
            Self::Adyen => false,
        }
    }
}

fn known(payment: &Payment) -> Result<&str, Bug> {
    payment
        .provider_payment
        .as_deref()
        .ok_or_else(|| Bug(format!("the provider never gave an id of {}", payment.id)))
}

/// What moves a payment is admitted only in amounts that its provider takes.
#[allow(clippy::needless_pass_by_value)] // for `map_err`
fn not_checked(reason: UnsupportedMoney) -> Bug {
    Bug(format!("an amount was admitted that {}", reason.message()))
}

fn not_executed(answer: &HttpAnswer, scope: RefusalScope, reason: &str) -> Outcome {
    Outcome::NotExecuted {
        retry_after_ms: answer.retry_after_ms,
        scope,
        reason: format!("{reason} ({})", answer.status),
    }
}

fn unknown(answer: &HttpAnswer, answer_is_stored: bool, reason: &str) -> Outcome {
    // An explicit "do not retry" on an unclear answer leaves only the look-up; where there is none, a webhook or a person.
    let answer_is_stored = answer_is_stored || answer.should_retry == Some(false);
    Outcome::Unknown { answer_is_stored, reason: format!("{reason} ({})", answer.status) }
}

/// The provider itself has failed while it executed.
fn indeterminate(answer: &HttpAnswer, reason: &str) -> Outcome {
    let answer_is_stored = answer.replayed || answer.should_retry == Some(false);
    Outcome::Indeterminate { answer_is_stored, reason: format!("{reason} ({})", answer.status) }
}

/// Letters, digits, `-` and `_`: what may stand in an address as it is.
fn is_plain(id: &str) -> bool {
    !id.is_empty() && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
}
