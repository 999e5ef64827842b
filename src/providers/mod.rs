//! The payment providers. Each encodes an operation into bytes and reads the meaning of an answer; both are pure.
//! `transport` (in the Worker only) carries the bytes.

pub mod stripe;
#[cfg(target_arch = "wasm32")]
pub mod transport;

use serde::{Deserialize, Serialize};

use crate::machine::call::{ForeignCall, FrozenRequest, LookUp, Outcome};

/// Where a call goes. Written down with the call: a retry never moves to another provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Provider {
    /// [Stripe](https://docs.stripe.com/api).
    Stripe,
}

/// An HTTP answer of a provider, as far as it matters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpAnswer {
    /// The status.
    pub status: u16,
    /// `Stripe-Should-Retry`, where present.
    pub should_retry: Option<bool>,
    /// `Retry-After`, in ms.
    pub retry_after_ms: Option<u64>,
    /// Whether the answer is a stored one (`Idempotent-Replayed: true`).
    pub replayed: bool,
    /// `Request-Id`.
    pub request_id: Option<String>,
    /// The body.
    pub body: String,
}

impl Provider {
    /// The name as stored and shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stripe => "stripe",
        }
    }

    /// From the stored name.
    pub fn parse(text: &str) -> Option<Self> {
        (text == "stripe").then_some(Self::Stripe)
    }

    /// What an answer to a send of this call means.
    pub fn classify(self, call: &ForeignCall, answer: &HttpAnswer) -> Outcome {
        match self {
            Self::Stripe => stripe::classify(call, answer),
        }
    }

    /// What to ask (with `GET`) to find out whether this call was executed: the next page of its look-up.
    pub fn look_up_request(self, call: &ForeignCall) -> FrozenRequest {
        match self {
            Self::Stripe => stripe::look_up(call),
        }
    }

    /// What the answer to that page says.
    pub fn read_look_up(self, call: &ForeignCall, answer: &HttpAnswer) -> LookUp {
        match self {
            Self::Stripe => stripe::read_page(call, answer),
        }
    }
}
