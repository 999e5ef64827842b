//! What the table of routes says of an address beside its method and pattern: who may use it, who answers, and what the API's document
//! says of it. [`super::routes`] has them all.

#[cfg(target_arch = "wasm32")]
use futures_util::future::LocalBoxFuture;
use serde_json::{Value, json};

#[cfg(target_arch = "wasm32")]
use super::app::App;
use super::checkout::order_token::LINK_MAX_LEN;
use super::openapi::{self, Operation};
use once::key::KEY_MAX_LEN;
use web::route::FromPath;
use web::schema::text;
#[cfg(target_arch = "wasm32")]
use web::{
    http::{Answer, Request},
    problem::Problem,
    route::Parameters,
};

/// A line of the table.
pub type Endpoint = web::route::Endpoint<Own>;
/// An address that exists.
pub type Route = web::route::Route<Own>;

/// Who may use a route. A POST must show it before its body is read: see `admission.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// Everybody.
    Anyone,
    /// An API client.
    Account,
    /// Whoever has the link to the order.
    LinkHolder,
    /// Stripe, by its signature.
    Stripe,
    /// Adyen, by the signature of each item.
    Adyen,
    /// Programs of the operator, at the desk.
    Operator,
}

impl Who {
    /// Whether it is for programs, which scripts of other sites may be.
    pub const fn is_api(self) -> bool {
        matches!(self, Self::Account)
    }
}

/// What the table says of an address.
#[derive(Clone, Copy, Debug)]
pub struct Own {
    /// Who may.
    pub who: Who,
    /// What the API's document says of it; nothing where it is for browsers alone.
    pub operation: Option<fn() -> Operation>,
    /// Who answers.
    #[cfg(target_arch = "wasm32")]
    pub(super) handler: Handler,
}

/// Answers a request.
#[cfg(target_arch = "wasm32")]
pub(super) type Handler =
    for<'a> fn(&'a App, &'a Request, &'a Parameters) -> LocalBoxFuture<'a, Result<Answer, Problem>>;

/// Whether it is for programs, which scripts of other sites may be.
pub fn is_api(route: &Route) -> bool {
    route.endpoints().any(|endpoint| endpoint.own.who.is_api())
}

/// Makes types of texts that stand in a path as they were sent: their handlers read them.
macro_rules! texts {
    ($($(#[$doc:meta])* $name:ident $described:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name(String);

        impl FromPath for $name {
            fn from_path(text: &str) -> Option<Self> {
                Some(Self(text.to_owned()))
            }

            fn described() -> Option<Value> {
                $described
            }
        }
    )*};
}

texts! {
    /// An idempotency key, still percent-encoded.
    EncodedKey Some(json!({
        "description": "The idempotency key, percent-encoded.", "example": openapi::KEY,
        "schema": text().with("minLength", 1).at_most(KEY_MAX_LEN).with("pattern", "^[!-~]+$"),
    }));
    /// The id of a merchant's order, still percent-encoded.
    EncodedOrder Some(json!({
        "description": "Your order, percent-encoded.", "schema": text().with("minLength", 1),
    }));
    /// The link to an order.
    OrderLink Some(json!({
        "description": "The signed order.",
        "schema": text().with("minLength", 16).at_most(LINK_MAX_LEN).with("pattern", r"^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$"),
    }));
    /// A payment's id, or all of them.
    OneOrAll Some(json!({ "description": "The id of the payment, or `all`.", "schema": text() }));
}
