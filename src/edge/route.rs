//! What the table of routes says of an address beside its method and pattern: who may use it, and who answers. [`super::routes`] has
//! them all.

use futures_util::future::LocalBoxFuture;

use super::app::App;
use web::route::FromPath;
use web::url::percent_decode;
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
    /// Stripe, by its signature with a secret of the account's own.
    OwnStripe,
    /// Adyen, by the signature of each item.
    Adyen,
    /// Adyen, by the signature of each item with a key of the account's own.
    OwnAdyen,
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
    /// Who answers.
    pub(super) handler: Handler,
}

/// Answers a request.
pub(super) type Handler =
    for<'a> fn(&'a App, &'a Request, &'a Parameters) -> LocalBoxFuture<'a, Result<Answer, Problem>>;

/// Whether it is for programs, which scripts of other sites may be.
pub fn is_api(route: &Route) -> bool {
    route.endpoints().any(|endpoint| endpoint.own.who.is_api())
}

/// Makes types of texts that stand in a path as they were sent: their handlers read them.
macro_rules! texts {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name(String);

        impl FromPath for $name {
            fn from_path(text: &str) -> Option<Self> {
                Some(Self(text.to_owned()))
            }
        }
    )*};
}

impl AccountId {
    /// As it is, unless it is not text.
    pub(super) fn decoded(&self) -> Option<String> {
        percent_decode(&self.0)
    }
}

texts! {
    /// An idempotency key, still percent-encoded.
    EncodedKey;
    /// A customer's address for email, still percent-encoded.
    EncodedEmail;
    /// The id of a merchant's order, still percent-encoded.
    EncodedOrder;
    /// The link to an order.
    OrderLink;
    /// A refund's id.
    OneRefund;
    /// The id of a message to a shop.
    OneDelivery;
    /// A payment's id, or all of them.
    OneOrAll;
    /// An API account's id, still percent-encoded.
    AccountId;
    /// A token's SHA-256.
    TokenHash;
    /// Which key of an account.
    CredentialName;
}
