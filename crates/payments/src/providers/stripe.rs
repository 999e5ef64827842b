//! Stripe: calls as bytes, and the meaning of its answers.
//!
//! Sources: [PaymentIntents](https://docs.stripe.com/api/payment_intents),
//! [refunds](https://docs.stripe.com/api/refunds), [customers](https://docs.stripe.com/api/customers),
//! [idempotent requests](https://docs.stripe.com/api/idempotent_requests),
//! [advanced error handling](https://docs.stripe.com/error-low-level).

mod answers;
pub mod by_hand;
mod customers;
mod look_up;
mod objects;
mod questions;
mod requests;
pub mod webhook;

pub use answers::{classify, payment_of};
pub(crate) use customers::{create_customer, update_customer};
pub use look_up::{close, identity, known_payment, look_up, read_identity, read_page, read_whose};
pub use questions::{dispute_status, question, read_dispute, read_status_reply};
pub use requests::{authorize, capture, refund, void};

/// The code of a refund that is refused because all of the money was given back before.
pub(crate) const ALREADY_REFUNDED: &str = "charge_already_refunded";

/// The version of the API that requests are written for and answers are read by: the last one in which a payment names its methods. From the
/// next one on (2026-09-30.endive) it is
/// [refused](https://docs.stripe.com/changelog/endive/2026-09-30/removes-the-payment-method-types-parameter-from-payment-intents-and-setup-intents),
/// and without it a confirmation takes no `error_on_requires_action`
/// ([2023-08-16](https://docs.stripe.com/changelog/2023-08-16/automatic-payment-methods)).
pub const API_VERSION: &str = "2026-08-26.dahlia";
