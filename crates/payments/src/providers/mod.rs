//! The payment providers, and the router between them. Each provider encodes an operation into bytes and reads the meaning
//! of an answer; both are pure. `transport` (in the Worker only) carries the bytes.
//!
//! A payment's first call chooses the provider; it is written down with the payment and with every call, and whatever
//! comes later goes there. Only a new try, after the last has failed for good, may choose another one.

pub mod adyen;
pub mod codec;
pub mod stripe;

use crate::engine::{LookUp, Outcome, ProviderCall, ProviderReply};
use crate::payment::Payment;
use crate::payment::money::{AmountMinor, Currency};
pub use crate::payment::provider::Provider;
use crate::payment::refund::Refund;
use crate::payment::result::CallKind;
use crate::payment::status_query::{StatusQuery, StatusReply};
pub use codec::{Authorization, HttpAnswer, UnsupportedMoney};
use once::call::FrozenRequest;
use once::context::{Bug, Times};

impl Provider {
    /// The idempotency key that the provider gets, from the one that our ids make.
    pub(crate) fn provider_key(self, text: &str) -> String {
        match self {
            Self::Stripe => text.to_owned(),
            Self::Adyen => adyen::provider_key(text),
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
        amount_minor: u64,
        provider_key: &str,
    ) -> Result<FrozenRequest, Bug> {
        let id = known(payment)?;
        match self {
            Self::Stripe => {
                let account = payment.merchant_account.as_deref();
                Ok(stripe::capture(id, amount_minor, provider_key).for_account(account))
            }
            Self::Adyen => adyen::capture(id, payment, amount_minor, provider_key).map_err(not_checked),
        }
    }

    /// Gives up what was reserved.
    pub(crate) fn void(self, payment: &Payment, provider_key: &str) -> Result<FrozenRequest, Bug> {
        let id = known(payment)?;
        Ok(match self {
            Self::Stripe => stripe::void(id).for_account(payment.merchant_account.as_deref()),
            Self::Adyen => adyen::void(id, payment, provider_key),
        })
    }

    /// Gives money back.
    pub(crate) fn refund(
        self,
        payment: &Payment,
        refund: &Refund,
        provider_key: &str,
    ) -> Result<FrozenRequest, Bug> {
        let id = known(payment)?;
        match self {
            Self::Stripe => {
                let account = payment.merchant_account.as_deref();
                Ok(stripe::refund(id, &payment.id.to_string(), refund, provider_key).for_account(account))
            }
            Self::Adyen => adyen::refund(id, payment, refund, provider_key).map_err(not_checked),
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
            Self::Stripe if call.asks_identity() => stripe::read_whose(call, answer),
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
            Self::Stripe => Some(call.provider_key.clone()),
            Self::Adyen => adyen::by_hand::reference(call),
        }
    }

    /// What to ask (with `GET`) about a payment or a refund that is not decided.
    pub fn question_request(self, question: &StatusQuery) -> Option<FrozenRequest> {
        match self {
            Self::Stripe => Some(stripe::question(question)),
            Self::Adyen => None,
        }
    }

    /// What the answer to a question says.
    pub fn read_status_reply(self, question: &StatusQuery, answer: &HttpAnswer) -> StatusReply {
        match self {
            Self::Stripe => stripe::read_status_reply(question, answer),
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
