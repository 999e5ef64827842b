//! What a route is: a method and a pattern, and what a Worker keeps beside them, such as who may use it and who answers. Each Worker has
//! its own table.

use std::marker::PhantomData;
use std::ops::Deref;

use crate::http::percent_decode;
use crate::problem::{Kind, Problem};
use payments::payment::id::{CustomerId, PaymentId};

/// HEAD works wherever GET does, and OPTIONS everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// With HEAD.
    Get,
    /// With a body.
    Post,
    /// With a body: how something is to be.
    Put,
    /// Without a body.
    Delete,
}

impl Method {
    /// Whether a request of it has a body.
    pub const fn has_body(self) -> bool {
        matches!(self, Self::Post | Self::Put)
    }

    /// As a request names it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
        }
    }
}

/// One line of a table.
#[derive(Clone, Copy, Debug)]
pub struct Endpoint<T: 'static> {
    /// What is asked for.
    pub method: Method,
    /// The path, with `{name}` for each parameter: also its name in the log and the metrics, without anything from the request.
    pub pattern: &'static str,
    /// The parameters in the path.
    pub parameters: &'static [PathParameter],
    /// The longest body that is read, in bytes.
    pub body_max_bytes: usize,
    /// What the Worker keeps beside it.
    pub own: T,
}

/// A parameter of a pattern.
#[derive(Clone, Copy, Debug)]
pub struct PathParameter {
    /// As the pattern names it.
    pub name: &'static str,
    /// Whether the route is meant with this in its place.
    pub fits: fn(&str) -> bool,
}

/// What can stand in a path.
pub trait FromPath: Sized {
    /// Reads it, as it was sent.
    fn from_path(text: &str) -> Option<Self>;

    /// Whether the address is this route's at all. Else nobody is told whether a path is well-formed before they have shown who they are.
    fn fits(_text: &str) -> bool {
        true
    }
}

impl FromPath for PaymentId {
    fn from_path(text: &str) -> Option<Self> {
        Self::parse(text)
    }
}

impl FromPath for CustomerId {
    fn from_path(text: &str) -> Option<Self> {
        Self::parse(text)
    }
}

impl FromPath for Kind {
    fn from_path(text: &str) -> Option<Self> {
        Self::from_slug(text)
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

/// Any text, still percent-encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text(pub String);

impl FromPath for Text {
    fn from_path(text: &str) -> Option<Self> {
        Some(Self(text.to_owned()))
    }
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
    /// What stands in all places, as the address has it, for the log.
    pub fn text(&self) -> String {
        let texts: Vec<&str> = self.0.iter().map(|(_, text)| text.as_str()).collect();
        texts.join("/")
    }

    /// The parameter of this name; empty if the pattern has none.
    pub fn get<T>(&self, name: &str) -> Parameter<'_, T> {
        let text = self.0.iter().find(|(known, _)| *known == name).map(|(_, text)| text.as_str());
        Parameter { text: text.unwrap_or_default(), r#type: PhantomData }
    }
}

impl<T> Endpoint<T> {
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
pub struct Route<T: 'static> {
    endpoints: Vec<&'static Endpoint<T>>,
    /// What stands in the places of the parameters.
    pub parameters: Parameters,
}

impl<T> Route<T> {
    /// The first of these patterns that a path is of, with all its methods.
    pub fn find(endpoints: &'static [Endpoint<T>], path: &str) -> Option<Self> {
        let found = |endpoint: &'static Endpoint<T>| Some((endpoint.pattern, endpoint.parameters_of(path)?));
        let (pattern, parameters) = endpoints.iter().find_map(found)?;
        let endpoints = endpoints.iter().filter(|endpoint| endpoint.pattern == pattern).collect();
        Some(Self { endpoints, parameters })
    }

    /// What answers this method, or the problem that nothing does.
    pub fn endpoint(&self, method: &str) -> Result<&'static Endpoint<T>, Problem> {
        self.find_endpoint(method).ok_or_else(|| {
            let mut problem = Problem::new(Kind::MethodNotAllowed);
            problem.allow = Some(self.allow());
            problem
        })
    }

    fn find_endpoint(&self, method: &str) -> Option<&'static Endpoint<T>> {
        let method = if method == "HEAD" { "GET" } else { method };
        self.endpoints.iter().copied().find(|endpoint| endpoint.method.as_str() == method)
    }

    /// The methods that it answers, as the `Allow` header lists them.
    pub fn allow(&self) -> String {
        let has = |method: &&str| matches!(*method, "OPTIONS") || self.find_endpoint(method).is_some();
        let methods: Vec<&str> =
            ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"].into_iter().filter(has).collect();
        methods.join(", ")
    }

    /// Its name in the log and the metrics.
    pub fn name(&self) -> &'static str {
        self.endpoints.first().map_or("none", |endpoint| endpoint.pattern)
    }

    /// All that stands there.
    pub fn endpoints(&self) -> impl Iterator<Item = &'static Endpoint<T>> {
        self.endpoints.iter().copied()
    }
}
