//! Adyen: payments with stored cards and their modifications as bytes, and the meaning of the answers.
//!
//! What is different from Stripe, and what follows from it:
//!
//! - Nothing can be asked: there is no list of payments and no `GET` of one. An unknown outcome is resolved by sending
//!   again inside [`WINDOW_MS`], else by a webhook or a person. Therefore `reference` names the call, not the payment alone.
//! - Modifications are only *received*; how they end is told by webhooks. Until then a capture, a void or a refund is pending.
//! - No bank's page: `/payments/details` is not part of the flow, so that an answer that asks for the person is a "no".
//!
//! Sources: [Checkout API v71](https://docs.adyen.com/api-explorer/Checkout/71/overview),
//! [API idempotency](https://docs.adyen.com/development-resources/api-idempotency),
//! [refusal reasons](https://docs.adyen.com/development-resources/refusal-reasons),
//! [payment modifications](https://docs.adyen.com/online-payments/capture).

mod amount;
mod answers;
pub mod by_hand;
mod closing;
pub mod minor_units;
mod notices;
pub mod report;
mod requests;

pub mod webhook;

pub use answers::{classify, no_look_up, refusal};
pub use closing::{close, close_key, read_close};
pub use notices::{told, told_of_a_part};
pub use requests::{WINDOW_MS, authorize, base, capture, payment_methods, provider_key, refund, void};
