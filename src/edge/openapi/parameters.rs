//! What the document says of the parameters in a path.

use serde_json::{Value, json};

use super::customers::EMAIL;
use super::examples::ORDER;
use super::schema::{one_of_words, reference, text};
use crate::edge::checkout::order_token::LINK_MAX_LEN;
use crate::edge::route::{
    AccountId, CredentialName, EncodedEmail, EncodedKey, EncodedOrder, OneDelivery, OneOrAll, OneRefund,
    OrderLink, TokenHash,
};
use messages::account::ID_MAX;
use messages::credentials::CredentialKind;
use once::key::KEY_MAX_LEN;
use payments::payment::id::{CustomerId, PaymentId};
use web::entries::EMAIL_MAX;
use web::problem::Kind;
use web::route::Text;

/// A key, for examples.
pub(super) const KEY: &str = "7f3a2c1e-5b0d-4f6a-9c8e-2d1b3a4c5e6f";

/// What can stand in a path.
pub trait Described {
    /// Description and schema. Nothing where it is for browsers alone.
    fn described() -> Option<Value>;
}

impl Described for PaymentId {
    fn described() -> Option<Value> {
        Some(json!({ "description": "The payment.", "schema": reference("PaymentId") }))
    }
}

impl Described for Kind {
    fn described() -> Option<Value> {
        let schema = one_of_words(Self::ALL.iter().map(|kind| kind.slug()));
        Some(json!({ "description": "The last part of the type.", "schema": schema }))
    }
}

impl Described for EncodedKey {
    fn described() -> Option<Value> {
        Some(json!({
            "description": "The idempotency key, percent-encoded.", "example": KEY,
            "schema": text().with("minLength", 1).at_most(KEY_MAX_LEN).with("pattern", "^[!-~]+$"),
        }))
    }
}

impl Described for CustomerId {
    fn described() -> Option<Value> {
        let schema = text().with("pattern", "^cust_[A-Za-z0-9_-]{43}$");
        Some(json!({ "description": "Our id of the customer, in its metadata at Stripe.", "schema": schema }))
    }
}

impl Described for EncodedEmail {
    fn described() -> Option<Value> {
        let schema = text().with("pattern", r"^[^@\s]+@[^@\s]+\.[^@\s]+$").at_most(EMAIL_MAX);
        Some(json!({
            "description": "The customer's address for email, percent-encoded. Its domain may be in any case; what is before the @ is taken \
                to the letter.",
            "example": EMAIL, "schema": schema,
        }))
    }
}

impl Described for EncodedOrder {
    fn described() -> Option<Value> {
        let schema = text().with("minLength", 1);
        Some(json!({ "description": "Your order, percent-encoded.", "example": ORDER, "schema": schema }))
    }
}

impl Described for OrderLink {
    fn described() -> Option<Value> {
        let schema = text()
            .with("minLength", 16)
            .at_most(LINK_MAX_LEN)
            .with("pattern", r"^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$");
        Some(json!({ "description": "The signed order.", "schema": schema }))
    }
}

impl Described for OneOrAll {
    fn described() -> Option<Value> {
        Some(json!({ "description": "The id of the payment, or `all`.", "schema": text() }))
    }
}

impl Described for OneDelivery {
    fn described() -> Option<Value> {
        let schema = text().with("pattern", "^pay_[A-Za-z0-9_-]{43}_event_[0-9]+$");
        Some(json!({ "description": "The message: its `webhook-id`.", "schema": schema }))
    }
}

impl Described for OneRefund {
    fn described() -> Option<Value> {
        let schema = text().with("pattern", "^re_[A-Za-z0-9_-]{16}$");
        Some(json!({ "description": "The refund.", "schema": schema }))
    }
}

impl Described for AccountId {
    fn described() -> Option<Value> {
        let schema = text().with("minLength", 1).at_most(ID_MAX);
        Some(json!({ "description": "The account, percent-encoded.", "schema": schema }))
    }
}

impl Described for TokenHash {
    fn described() -> Option<Value> {
        let schema = text().with("pattern", "^[0-9a-f]{64}$");
        Some(json!({ "description": "The token's SHA-256, in lower-case hexadecimal.", "schema": schema }))
    }
}

impl Described for CredentialName {
    fn described() -> Option<Value> {
        let kinds = CredentialKind::ALL.map(CredentialKind::as_str);
        let about = "Which key. `stripe_webhook_secret_before` can only be removed: it is the one that another has replaced.";
        Some(json!({ "description": about, "schema": one_of_words(kinds) }))
    }
}

impl Described for Text {
    fn described() -> Option<Value> {
        None
    }
}
