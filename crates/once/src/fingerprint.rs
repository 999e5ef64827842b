//! The fingerprint: does a retry carry the request that the key was first used for?
//!
//! `v1:` and the SHA-256, in hexadecimal, of method, path and canonical parameters, each preceded by its length.
//! JSON is made canonical by RFC 8785 (JCS), a form by sorting its pairs, so that member order and white space never
//! matter. Transport-only fields are left out before. docs/protocol.md publishes this definition.
//!
//! RFC 8785 is for numbers that all readers take for the same, those of I-JSON (RFC 7493, 2.2): beyond ±(2^53 − 1) two whole numbers can be one
//! double. So parameters with such a number have [no canonical form](NoCanonicalForm), and the request is to be refused.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::id::digest;
use super::sorted;

/// The largest number up to which each whole one is a double of its own: beyond it neighbouring ones are one double.
pub const EXACT_MAX: u64 = (1 << 53) - 1;

/// A request's parameters as they came, by how they were written.
#[derive(Clone, Debug, PartialEq)]
pub enum Parameters {
    /// A JSON object.
    Json(serde_json::Map<String, Value>),
    /// `application/x-www-form-urlencoded` pairs, in the order sent.
    Form(Vec<(String, String)>),
}

impl Parameters {
    /// The same parameters without the named fields: what only the transport needs is no part of the fingerprint.
    #[must_use]
    pub fn without(mut self, names: &[&str]) -> Self {
        match &mut self {
            Self::Json(members) => members.retain(|name, _| !names.contains(&name.as_str())),
            Self::Form(pairs) => pairs.retain(|(name, _)| !names.contains(&name.as_str())),
        }
        self
    }

    /// The text form of a field, if it is there exactly once and is a string, a number, `true` or `false`. Of a JSON number it is the
    /// canonical one: 2500, 2500.0 and 2.5e3 are the same. One that has none is no text.
    pub fn text(&self, name: &str) -> Field {
        match self {
            Self::Json(members) => match members.get(name) {
                None | Some(Value::Null) => Field::Missing,
                Some(Value::String(text)) => Field::Text(text.clone()),
                Some(number @ Value::Number(_)) => canonical(number).map_or(Field::NotText, Field::Text),
                Some(Value::Bool(flag)) => Field::Text(flag.to_string()),
                Some(_) => Field::NotText,
            },
            Self::Form(pairs) => {
                let mut values = pairs.iter().filter(|(n, _)| n == name);
                match (values.next(), values.next()) {
                    (None, _) => Field::Missing,
                    (Some((_, value)), None) if value.is_empty() => Field::Missing,
                    (Some((_, value)), None) => Field::Text(value.clone()),
                    (Some(_), Some(_)) => Field::NotText,
                }
            }
        }
    }

    /// The names of all fields, sorted.
    pub fn names(&self) -> BTreeSet<&str> {
        match self {
            Self::Json(members) => sorted::set(members.keys().map(String::as_str)),
            Self::Form(pairs) => sorted::set(pairs.iter().map(|(name, _)| name.as_str())),
        }
    }

    /// Whether a field is JSON's `true` or `false`: [`text`](Self::text) cannot tell it from the words.
    pub fn is_boolean(&self, name: &str) -> bool {
        matches!(self, Self::Json(members) if members.get(name).is_some_and(Value::is_boolean))
    }

    /// The names of the fields that are there and hold nothing: JSON's `null`, and an empty value of a form. Also within an object, as a form
    /// writes it: `fallback[customer]`.
    pub fn empty_names(&self) -> Vec<String> {
        match self {
            Self::Form(pairs) => {
                pairs.iter().filter(|(_, value)| value.is_empty()).map(|(name, _)| name.clone()).collect()
            }
            Self::Json(members) => {
                let mut names = Vec::new();
                for (name, value) in members {
                    match value {
                        Value::Null => names.push(name.clone()),
                        Value::Object(inner) => {
                            let empty = inner.iter().filter(|(_, value)| value.is_null());
                            names.extend(empty.map(|(key, _)| format!("{name}[{key}]")));
                        }
                        _ => {}
                    }
                }
                names
            }
        }
    }

    /// The canonical text. Stored beside the fingerprint, to be able to name the fields that differ.
    ///
    /// # Errors
    /// Where a field has none. Its requests are to be refused: they could not be told apart.
    pub fn canonical(&self) -> Result<Canonical, NoCanonicalForm> {
        let value = match self {
            Self::Json(members) => Value::Object(members.clone()),
            Self::Form(pairs) => {
                let mut pairs: Vec<_> = pairs.iter().collect();
                sorted::by_key(&mut pairs, |pair| *pair);
                serde_json::json!(pairs)
            }
        };
        canonical(&value).map(Canonical).ok_or_else(|| {
            let names = value.as_object().into_iter().flatten();
            let field = names.filter(|(_, value)| !is_exact(value)).map(|(name, _)| name.clone()).next();
            NoCanonicalForm { field: field.unwrap_or_default() }
        })
    }
}

/// The canonical text of a value, if it has one.
fn canonical(value: &Value) -> Option<String> {
    if is_exact(value) { serde_json_canonicalizer::to_string(value).ok() } else { None }
}

/// Whether all its numbers are those that are written.
fn is_exact(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.as_f64().is_some_and(|number| number.abs() <= EXACT_MAX as f64),
        Value::Array(items) => items.iter().all(is_exact),
        Value::Object(members) => members.values().all(is_exact),
        Value::Null | Value::Bool(_) | Value::String(_) => true,
    }
}

/// Parameters that have no canonical form: a number in them is beyond ±(2^53 − 1), where JSON readers round differently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoCanonicalForm {
    /// The field in which it stands.
    pub field: String,
}

impl NoCanonicalForm {
    /// What is wrong with the field, and what to send instead.
    pub const MESSAGE: &'static str =
        "has a number beyond 2^53, which JSON readers round differently: send it as a string";
}

impl fmt::Display for NoCanonicalForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the field `{}` {}", self.field, Self::MESSAGE)
    }
}

impl std::error::Error for NoCanonicalForm {}

/// What stands under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Field {
    /// Not there, or empty.
    Missing,
    /// A single value.
    Text(String),
    /// Given twice, or an array or object where one value is wanted, or a number that has no canonical form.
    NotText,
}

impl Field {
    /// The value; empty if there is not a single one.
    pub fn or_empty(self) -> String {
        match self {
            Self::Text(text) => text,
            Self::Missing | Self::NotText => String::new(),
        }
    }
}

/// A field that cannot be used, and what to send instead.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FieldError {
    /// The field's name.
    pub field: String,
    /// What to do about it.
    pub message: String,
}

/// Parameters in canonical form: equal texts mean equal parameters.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Canonical(pub String);

impl Canonical {
    /// The names of the fields in which two requests differ, sorted. Never their values.
    pub fn differing_fields(&self, other: &Self) -> Vec<String> {
        let (ours, theirs) = (self.by_field(), other.by_field());
        let names = sorted::set(ours.keys().chain(theirs.keys()).map(String::as_str));
        names.into_iter().filter(|name| ours.get(*name) != theirs.get(*name)).map(str::to_owned).collect()
    }

    fn by_field(&self) -> BTreeMap<String, Vec<String>> {
        let mut fields: BTreeMap<String, Vec<String>> = BTreeMap::new();
        match json_text::from_str(&self.0) {
            Ok(Value::Object(members)) => {
                for (name, value) in members {
                    fields.entry(name).or_default().push(value.to_string());
                }
            }
            Ok(Value::Array(pairs)) => {
                for pair in &pairs {
                    let part = |i: usize| pair.get(i).and_then(Value::as_str).unwrap_or_default().to_owned();
                    fields.entry(part(0)).or_default().push(Value::String(part(1)).to_string());
                }
            }
            _ => {}
        }
        fields
    }
}

/// The fingerprint of a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fingerprint(pub String);

impl Fingerprint {
    /// None any more: what the request was is not to be found out. Nothing is compared with it.
    pub const fn erased() -> Self {
        Self(String::new())
    }

    /// Whether it is [none any more](Self::erased).
    pub const fn is_erased(&self) -> bool {
        self.0.is_empty()
    }

    /// Over method and path alone: what a key is bound to. Its parameters count where it runs, once it is admitted there.
    pub fn of_address(method: &str, path: &str) -> Self {
        Self::of(method, path, &Canonical(String::new()))
    }

    /// Over method, path and canonical parameters.
    ///
    /// ```
    /// use once::fingerprint::{Fingerprint, Parameters};
    ///
    /// let form = |pairs: &[(&str, &str)]| {
    ///     Parameters::Form(pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect())
    /// };
    /// let of = |parameters: &Parameters| parameters.canonical().map(|canonical| Fingerprint::of("POST", "/rides", &canonical));
    ///
    /// // The order does not matter, a value does.
    /// let first = form(&[("from", "A"), ("to", "B")]);
    /// assert_eq!(of(&first), of(&form(&[("to", "B"), ("from", "A")])));
    /// assert_ne!(of(&first), of(&form(&[("from", "A"), ("to", "C")])));
    /// ```
    pub fn of(method: &str, path: &str, parameters: &Canonical) -> Self {
        let hash = digest(&[b"v1", method.as_bytes(), path.as_bytes(), parameters.0.as_bytes()]);
        Self(format!("v1:{}", base16ct::lower::encode_string(&hash)))
    }
}
