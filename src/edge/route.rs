//! What a route is: a method and a pattern, who may use it, and who answers. [`super::routes`] has them all.

#[cfg(target_arch = "wasm32")]
use futures_util::future::LocalBoxFuture;
use std::marker::PhantomData;
use std::ops::Deref;

use serde_json::{Value, json};

#[cfg(target_arch = "wasm32")]
use super::app::App;
use super::checkout::order_token::LINK_MAX_LEN;
use super::http::percent_decode;
#[cfg(target_arch = "wasm32")]
use super::http::{Answer, Request};
use super::openapi::schema::{one_of_words, reference, text};
use super::openapi::{self, Operation};
use super::problem::{Kind, Problem};
use once::key::KEY_MAX_LEN;
use payments::payment::id::{PaymentId, RideId};

/// HEAD works wherever GET does, and OPTIONS everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// With HEAD.
    Get,
    /// The only one that has a body.
    Post,
    /// Without a body.
    Delete,
}

impl Method {
    /// As a request names it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Delete => "DELETE",
        }
    }
}

/// Who may use a route. A POST must show it before its body is read: see `admission.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// Everybody.
    Anyone,
    /// An API client.
    Account,
    /// Whose it is: an API client, or the browser in which it began.
    Owner,
    /// An API client, or a form of our own pages.
    FormOrAccount,
    /// Whoever has the link to the order.
    LinkHolder,
    /// Everybody, in the demo.
    Demo,
    /// Everybody with an experiment of the lab, in the demo.
    Lab,
    /// Stripe, by its signature.
    Stripe,
    /// Adyen, by the signature of each item.
    Adyen,
    /// Programs of the operator; in the lab everybody may read the counts.
    Operator,
    /// An operator in a browser: whoever is none is shown the way in.
    Desk,
    /// Whoever wants to be let in to the desk.
    Login,
    /// A form of our own pages.
    OurPages,
}

impl Who {
    /// Whether it is for programs, which scripts of other sites may be.
    pub const fn is_api(self) -> bool {
        matches!(self, Self::Account | Self::Owner | Self::FormOrAccount)
    }
}

/// One line of the table.
#[derive(Clone, Copy, Debug)]
pub struct Endpoint {
    /// What is asked for.
    pub method: Method,
    /// The path, with `{name}` for each parameter: also its name in the log and the metrics, without anything from the request.
    pub pattern: &'static str,
    /// Who may.
    pub who: Who,
    /// What the API's document says of it; nothing where it is for browsers alone.
    pub operation: Option<fn() -> Operation>,
    /// The parameters in the path.
    pub parameters: &'static [PathParameter],
    /// The longest body that is read, in bytes.
    pub body_max_bytes: usize,
    /// Who answers.
    #[cfg(target_arch = "wasm32")]
    pub(super) handler: Handler,
}

/// Answers a request.
#[cfg(target_arch = "wasm32")]
pub(super) type Handler =
    for<'a> fn(&'a App, &'a Request, &'a Parameters) -> LocalBoxFuture<'a, Result<Answer, Problem>>;

/// A parameter of a pattern.
#[derive(Clone, Copy, Debug)]
pub struct PathParameter {
    /// As the pattern names it.
    pub name: &'static str,
    /// Whether the route is meant with this in its place.
    pub fits: fn(&str) -> bool,
    /// See [`FromPath::described`].
    pub described: fn() -> Option<Value>,
}

/// What can stand in a path.
pub trait FromPath: Sized {
    /// Reads it, as it was sent.
    fn from_path(text: &str) -> Option<Self>;

    /// Whether the address is this route's at all. Else nobody is told whether a path is well-formed before they have shown who they are.
    fn fits(_text: &str) -> bool {
        true
    }

    /// What the API's document says of it: description and schema. Nothing where it is for browsers alone.
    fn described() -> Option<Value> {
        None
    }
}

impl FromPath for PaymentId {
    fn from_path(text: &str) -> Option<Self> {
        Self::parse(text)
    }

    fn described() -> Option<Value> {
        Some(json!({ "description": "The payment.", "schema": reference("PaymentId") }))
    }
}

impl FromPath for RideId {
    fn from_path(text: &str) -> Option<Self> {
        Self::parse(text)
    }

    fn described() -> Option<Value> {
        Some(json!({ "description": "The ride.", "schema": reference("RideId") }))
    }
}

impl FromPath for Kind {
    fn from_path(text: &str) -> Option<Self> {
        Self::from_slug(text)
    }

    fn described() -> Option<Value> {
        let schema = one_of_words(Self::ALL.iter().map(|kind| kind.slug()));
        Some(json!({ "description": "The last part of the type.", "schema": schema }))
    }
}

impl FromPath for u32 {
    fn from_path(text: &str) -> Option<Self> {
        text.parse().ok()
    }

    fn fits(text: &str) -> bool {
        Self::from_path(text).is_some()
    }
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
    /// Any text, still percent-encoded.
    Text None;
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
    /// A payment's id, or a ride's.
    PaymentOrRide Some(json!({ "description": "The id of the payment or the ride.", "schema": text() }));
    /// A payment's id, or a ride's, or all of them.
    OneOrAll Some(json!({ "description": "The id of the payment or the ride, or `all`.", "schema": text() }));
}

/// Any text, percent-encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded(pub String);

impl FromPath for Decoded {
    fn from_path(text: &str) -> Option<Self> {
        percent_decode(text).map(Self)
    }

    fn fits(text: &str) -> bool {
        Self::from_path(text).is_some()
    }
}

/// What stands in the place of a parameter. It reads as the text that was sent; [`Self::read`] tells what it means.
#[derive(Clone, Copy, Debug)]
pub struct Parameter<'a, T> {
    text: &'a str,
    r#type: PhantomData<T>,
}

impl<T: FromPath> Parameter<'_, T> {
    /// What it means. What means nothing is not found.
    pub fn read(&self) -> Result<T, Problem> {
        T::from_path(self.text).ok_or_else(|| Problem::new(Kind::NotFound))
    }
}

impl<T> Deref for Parameter<'_, T> {
    type Target = str;

    fn deref(&self) -> &str {
        self.text
    }
}

/// What stands in the places of a pattern's parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parameters(Vec<(&'static str, String)>);

impl Parameters {
    /// The parameter of this name; empty if the pattern has none.
    pub fn get<T>(&self, name: &str) -> Parameter<'_, T> {
        let text = self.0.iter().find(|(known, _)| *known == name).map(|(_, text)| text.as_str());
        Parameter { text: text.unwrap_or_default(), r#type: PhantomData }
    }
}

impl Endpoint {
    /// What stands in the places of its parameters, if this path is of its pattern.
    fn parameters_of(&self, path: &str) -> Option<Parameters> {
        let (mut parts, mut segments) = (self.pattern.split('/'), path.split('/'));
        let mut given = Vec::new();
        loop {
            let (part, segment) = match (parts.next(), segments.next()) {
                (Some(part), Some(segment)) => (part, segment),
                (None, None) => return Some(Parameters(given)),
                _ => return None,
            };
            match part.strip_prefix('{').and_then(|part| part.strip_suffix('}')) {
                Some(name) if self.takes(name, segment) => given.push((name, segment.to_owned())),
                None if part == segment => {}
                _ => return None,
            }
        }
    }

    fn takes(&self, name: &str, segment: &str) -> bool {
        let fits = |parameter: &PathParameter| parameter.name != name || (parameter.fits)(segment);
        !segment.is_empty() && self.parameters.iter().all(fits)
    }
}

/// An address that exists: all that stands there.
#[derive(Clone, Debug)]
pub struct Route {
    endpoints: Vec<&'static Endpoint>,
    /// What stands in the places of the parameters.
    pub parameters: Parameters,
}

impl Route {
    /// The first of these patterns that a path is of, with all its methods.
    pub fn find(endpoints: &'static [Endpoint], path: &str) -> Option<Self> {
        let found = |endpoint: &'static Endpoint| Some((endpoint.pattern, endpoint.parameters_of(path)?));
        let (pattern, parameters) = endpoints.iter().find_map(found)?;
        let endpoints = endpoints.iter().filter(|endpoint| endpoint.pattern == pattern).collect();
        Some(Self { endpoints, parameters })
    }

    /// What answers this method.
    pub fn endpoint(&self, method: &str) -> Option<&'static Endpoint> {
        let method = if method == "HEAD" { "GET" } else { method };
        self.endpoints.iter().copied().find(|endpoint| endpoint.method.as_str() == method)
    }

    /// The methods that it answers, as the `Allow` header lists them.
    pub fn allow(&self) -> String {
        let has = |method: &&str| matches!(*method, "OPTIONS") || self.endpoint(method).is_some();
        let methods: Vec<&str> =
            ["GET", "HEAD", "POST", "DELETE", "OPTIONS"].into_iter().filter(has).collect();
        methods.join(", ")
    }

    /// Its name in the log and the metrics.
    pub fn name(&self) -> &'static str {
        self.endpoints.first().map_or("none", |endpoint| endpoint.pattern)
    }

    /// Whether it is for programs, which scripts of other sites may be.
    pub fn is_api(&self) -> bool {
        self.endpoints.iter().any(|endpoint| endpoint.who.is_api())
    }
}
