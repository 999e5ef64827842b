//! The payment providers. Each encodes an operation into bytes and reads the meaning of an answer; both are pure.
//! `transport` (in the Worker only) carries the bytes.

pub mod stripe;
#[cfg(target_arch = "wasm32")]
pub mod transport;

use serde::{Deserialize, Serialize};

use crate::machine::call::{FrozenRequest, LookUp, Outcome};

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

/// One page of a look-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Page {
    /// The look-up is over.
    Done(LookUp),
    /// Not on this page; ask for this one.
    Next(FrozenRequest),
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

    /// What an answer to a send means.
    pub fn classify(self, answer: &HttpAnswer) -> Outcome {
        match self {
            Self::Stripe => stripe::classify(answer),
        }
    }
}
