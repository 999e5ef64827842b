//! Stripe's parameters: form-encoded, with `a[b]=c` for objects and `a[]=c` or `a[0]=c` for arrays.
//!
//! A [`Params`] is a tree whose keys are sorted, so its fingerprint does not depend on the order in which a client wrote the pairs. Each
//! endpoint first names what it knows ([`Params::allow`]); anything else is `parameter_unknown`. Nothing is guessed: a value of the wrong
//! shape is refused with the parameter's name.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

use crate::digest::hex;
use crate::stripe::errors::{ApiError, Failure, Outcome, missing};
use crate::text::excerpt;

/// More pairs than any endpoint takes.
const MAX_PAIRS: usize = 1_000;
/// Deeper than any parameter goes.
const MAX_DEPTH: usize = 6;

/// One parameter's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Param {
    /// A plain value.
    Text(String),
    /// An object, or an array with its positions as keys.
    Map(Params),
}

/// A set of parameters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Params(BTreeMap<String, Param>);

impl Params {
    /// Parses the query and the body together: Stripe reads both.
    pub fn parse(query: &[u8], body: &[u8]) -> Outcome<Self> {
        let mut params = Params::default();
        let pairs = form_urlencoded::parse(query).chain(form_urlencoded::parse(body));
        for (count, (key, value)) in pairs.enumerate() {
            if count >= MAX_PAIRS {
                return Err(
                    ApiError::invalid(format!("A request takes at most {MAX_PAIRS} parameters.")).refused()
                );
            }
            let path = split_key(&key).ok_or_else(|| malformed(&key))?;
            params.put(&path, value.into_owned()).ok_or_else(|| malformed(&key))?;
        }
        Ok(params)
    }

    fn put(&mut self, path: &[String], value: String) -> Option<()> {
        let (first, rest) = path.split_first()?;
        let key = if first.is_empty() { position(self.0.len()) } else { normal(first) };
        if rest.is_empty() {
            return match self.0.get(&key) {
                Some(Param::Map(_)) => None,
                _ => {
                    // As in Stripe's own parser, the last of two equal names wins.
                    self.0.insert(key, Param::Text(value));
                    Some(())
                }
            };
        }
        match self.0.entry(key).or_insert_with(|| Param::Map(Params::default())) {
            Param::Map(inner) => inner.put(rest, value),
            Param::Text(_) => None,
        }
    }

    /// Refuses every top-level parameter that is not named here.
    pub fn allow(&self, known: &[&str]) -> Outcome<()> {
        let unknown: Vec<&str> = self
            .0
            .keys()
            .map(String::as_str)
            .filter(|key| *key != "expand" && !known.contains(key))
            .collect();
        let Some(first) = unknown.first() else {
            return Ok(());
        };
        let plural = if unknown.len() == 1 { "" } else { "s" };
        Err(ApiError::invalid(format!("Received unknown parameter{plural}: {}", unknown.join(", ")))
            .code("parameter_unknown")
            .param(*first)
            .refused())
    }

    /// Whether it was sent at all.
    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Whether it was sent empty, which in an update means "unset".
    pub fn is_emptied(&self, name: &str) -> bool {
        matches!(self.0.get(name), Some(Param::Text(text)) if text.is_empty())
    }

    /// A text that is not empty.
    pub fn text(&self, name: &str) -> Outcome<Option<&str>> {
        match self.0.get(name) {
            None => Ok(None),
            Some(Param::Text(text)) if text.is_empty() => Err(ApiError::invalid(format!(
                "You passed an empty string for '{name}'. We assume empty values are an attempt to unset a parameter; however '{name}' \
                 cannot be unset. You should remove '{name}' from your request or supply a non-empty value."
            ))
            .code("parameter_invalid_empty")
            .param(name)
            .refused()),
            Some(Param::Text(text)) => Ok(Some(text)),
            Some(Param::Map(_)) => Err(ApiError::invalid("Invalid string: {}").param(name).refused()),
        }
    }

    /// Sets a text or, where it was sent empty, unsets it.
    pub fn update(&self, name: &str, field: &mut Option<String>) -> Outcome<()> {
        if self.is_emptied(name) {
            *field = None;
        } else if let Some(text) = self.text(name)? {
            *field = Some(text.to_owned());
        }
        Ok(())
    }

    /// A text that must be there.
    pub fn required(&self, name: &str) -> Outcome<&str> {
        self.text(name)?.ok_or_else(|| missing(name))
    }

    /// One of a closed set.
    pub fn choice(&self, name: &str, choices: &[&str]) -> Outcome<Option<&str>> {
        match self.text(name)? {
            Some(text) if !choices.contains(&text) => {
                Err(ApiError::invalid(format!("Invalid {name}: must be one of {}", choices.join(", ")))
                    .param(name)
                    .refused())
            }
            other => Ok(other),
        }
    }

    /// A whole number.
    pub fn integer(&self, name: &str) -> Outcome<Option<i64>> {
        let Some(text) = self.text(name)? else {
            return Ok(None);
        };
        text.parse().map(Some).map_err(|_| {
            ApiError::invalid(format!("Invalid integer: {}", excerpt(text)))
                .code("parameter_invalid_integer")
                .param(name)
                .refused()
        })
    }

    /// `true` or `false`.
    pub fn boolean(&self, name: &str) -> Outcome<Option<bool>> {
        match self.text(name)? {
            None => Ok(None),
            Some("true") => Ok(Some(true)),
            Some("false") => Ok(Some(false)),
            Some(text) => {
                Err(ApiError::invalid(format!("Invalid boolean: {}", excerpt(text))).param(name).refused())
            }
        }
    }

    /// An array of texts.
    pub fn list(&self, name: &str) -> Outcome<Vec<&str>> {
        match self.0.get(name) {
            None => Ok(Vec::new()),
            Some(Param::Text(_)) => Err(ApiError::invalid("Invalid array").param(name).refused()),
            Some(Param::Map(inner)) => inner.0.keys().map(|key| inner.required(key)).collect(),
        }
    }

    /// An object.
    pub fn map(&self, name: &str) -> Outcome<Option<&Params>> {
        match self.0.get(name) {
            None => Ok(None),
            Some(Param::Map(inner)) => Ok(Some(inner)),
            Some(Param::Text(_)) => Err(ApiError::invalid("Invalid object").param(name).refused()),
        }
    }

    /// Its pairs, in order of the keys.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &Param)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// SHA-256 over the canonical form: what an idempotency key is bound to besides method and path.
    pub fn fingerprint(&self) -> String {
        let mut hasher = Sha256::new();
        self.digest(&mut hasher);
        hex(&hasher.finalize())
    }

    fn digest(&self, hasher: &mut Sha256) {
        // Lengths before contents: no two different trees give the same bytes.
        let part = |hasher: &mut Sha256, tag: u8, bytes: &[u8]| {
            hasher.update([tag]);
            hasher.update((bytes.len() as u64).to_be_bytes());
            hasher.update(bytes);
        };
        hasher.update((self.0.len() as u64).to_be_bytes());
        for (key, value) in &self.0 {
            part(hasher, b'k', key.as_bytes());
            match value {
                Param::Text(text) => part(hasher, b't', text.as_bytes()),
                Param::Map(inner) => {
                    hasher.update(b"m");
                    inner.digest(hasher);
                }
            }
        }
    }
}

/// `a[b][]` as its steps, an empty one for "the next position".
fn split_key(key: &str) -> Option<Vec<String>> {
    let Some((head, tail)) = key.split_once('[') else {
        return (!key.is_empty() && !key.contains(']')).then(|| vec![key.to_owned()]);
    };
    let inner = tail.strip_suffix(']')?;
    let mut path = vec![head.to_owned()];
    path.extend(inner.split("][").map(str::to_owned));
    let clean = path.iter().all(|step| !step.contains(['[', ']']));
    (clean && !head.is_empty() && path.len() <= MAX_DEPTH).then_some(path)
}

/// Positions sort as numbers: `[2]` comes before `[10]`.
fn position(index: usize) -> String {
    format!("{index:04}")
}

fn normal(key: &str) -> String {
    match key.parse::<usize>() {
        Ok(index) if key.len() <= 4 => position(index),
        _ => key.to_owned(),
    }
}

fn malformed(key: &str) -> Failure {
    ApiError::invalid(format!("Invalid request: the parameter name '{}' cannot be read.", excerpt(key)))
        .refused()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn parse(body: &str) -> Params {
        Params::parse(b"", body.as_bytes()).unwrap()
    }

    #[test]
    fn nested_keys_and_arrays_are_read_in_every_spelling() {
        let params = parse(
            "amount=5&metadata[ride]=r+1&metadata%5Bnote%5D=a%20b&types[]=card&types[]=link&x[1]=b&x[0]=a",
        );
        assert_eq!(params.integer("amount").unwrap(), Some(5));
        assert_eq!(params.map("metadata").unwrap().unwrap().text("ride").unwrap(), Some("r 1"));
        assert_eq!(params.map("metadata").unwrap().unwrap().text("note").unwrap(), Some("a b"));
        assert_eq!(params.list("types").unwrap(), ["card", "link"]);
        assert_eq!(params.list("x").unwrap(), ["a", "b"]);
    }

    #[test]
    fn the_fingerprint_ignores_order_and_spelling_but_no_value() {
        let one = parse("a=1&b[c]=2&t[]=x").fingerprint();
        assert_eq!(one, parse("t[0]=x&b%5Bc%5D=2&a=1").fingerprint());
        assert_ne!(one, parse("a=1&b[c]=3&t[]=x").fingerprint());
        assert_ne!(parse("a=1").fingerprint(), parse("").fingerprint());
        assert_ne!(parse("a[b]=1").fingerprint(), parse("a=b1").fingerprint());
    }

    #[test]
    fn unreadable_names_and_contradictions_are_refused() {
        for body in [
            "a[b=1",
            "a]=1",
            "[a]=1",
            "a[b]c=1",
            "a=1&a[b]=2",
            "a[b]=1&a=2",
            "a[b[c]]=1",
            "a[1][2][3][4][5][6][7]=1",
        ] {
            assert!(Params::parse(b"", body.as_bytes()).is_err(), "{body}");
        }
    }

    #[test]
    fn values_of_the_wrong_shape_name_their_parameter() {
        for (body, code) in [
            ("n=1.5", Some("parameter_invalid_integer")),
            ("n=", Some("parameter_invalid_empty")),
            ("n[a]=1", None),
        ] {
            match parse(body).integer("n") {
                Err(Failure::Refused(error)) => {
                    assert_eq!(error.param.as_deref(), Some("n"));
                    assert_eq!(error.code.as_deref(), code, "{body}");
                }
                other => panic!("{body}: {other:?}"),
            }
        }
    }
}
