//! The fields of a request, on their way to being read: every one that is wrong is named.

use serde_json::{Map, Value};

use once::fingerprint::{Field, FieldError, Parameters};
use payments::providers::Provider;
use web::entries::field_error as error;

/// What has no other meaning where it is left out than where it is empty.
const MAY_BE_EMPTY: [&str; 4] = ["description", "return_url", "receipt_email", "metadata"];

/// The longest id or token, in characters.
pub const TOKEN_MAX: usize = 255;

/// Why a request begins nothing.
#[derive(Debug)]
pub struct NotAllowed<T> {
    /// What is wrong, in the order of the checks.
    pub errors: Vec<FieldError>,
    /// What is asked for, where it is well-formed and only what this account, this deployment or this release allows is against it. That may have
    /// been otherwise when the same request came first under its key. Not to be begun: who takes the money may be missing.
    pub asked: Option<Box<T>>,
}

/// Parameters on their way to being read.
pub(super) struct Fields {
    pub(super) parameters: Parameters,
    errors: Vec<FieldError>,
    /// The names of what is there without a value, where that is no way to leave it out.
    empty: Vec<String>,
    /// The names at the top of JSON that are `null`, and `fallback` without members: `parameters` has none of them.
    nulls: Vec<String>,
    /// How many of the errors are about what is allowed, and not about the request itself.
    not_allowed: usize,
}

impl Fields {
    pub(super) fn of(parameters: &Parameters) -> Self {
        let Flat { parameters, twice, nulls } = Flat::of(parameters);
        let mut fields = Self { parameters, errors: Vec::new(), empty: Vec::new(), nulls, not_allowed: 0 };
        for name in twice {
            fields.wrong(&name, "is given twice: as a member, and inside its object");
        }
        fields
    }

    /// The same of what moves money: who sends a field and nothing in it has lost what was to stand there, and that must become neither all that
    /// is left nor somebody's default card. To be said by [`optional`](Self::optional), where it is read.
    pub(super) fn of_money(parameters: &Parameters) -> Self {
        let mut empty = parameters.empty_names();
        empty.retain(|name| !MAY_BE_EMPTY.contains(&name.as_str()) && !name.starts_with("metadata["));
        Self { empty, ..Self::of(parameters) }
    }

    pub(super) fn wrong(&mut self, field: &str, message: impl Into<String>) {
        self.errors.push(error(field, message));
    }

    /// It is well-formed, and not allowed by what is configured or released now.
    pub(super) fn not_allowed(&mut self, field: &str, message: impl Into<String>) {
        self.wrong(field, message);
        self.not_allowed += 1;
    }

    pub(super) fn required<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        if self.parameters.text(name) == Field::Missing {
            self.wrong(name, "is missing");
            return None;
        }
        self.optional(name, read)
    }

    pub(super) fn optional<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let read = match self.parameters.text(name) {
            Field::Missing => {
                self.say_if_empty(name);
                return None;
            }
            Field::Text(text) => read(&text),
            Field::NotText => Err("must be given once, as one value".to_owned()),
        };
        // A release before took it for the word.
        if read.is_ok() && self.parameters.is_boolean(name) && name != "capture" {
            self.not_allowed(name, "must be a text, not true or false");
        }
        read.map_err(|message| self.wrong(name, message)).ok()
    }

    /// One that is wrong is not the default.
    pub(super) fn optional_or<T>(
        &mut self,
        name: &str,
        default: T,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        match self.parameters.text(name) {
            Field::Missing => {
                self.say_if_empty(name);
                Some(default)
            }
            Field::Text(_) | Field::NotText => self.optional(name, read),
        }
    }

    fn say_if_empty(&mut self, name: &str) {
        if self.empty.iter().any(|empty| empty == name) {
            self.without_value(name);
        }
    }

    /// A release before took it for left out: what was begun then is answered still.
    fn without_value(&mut self, name: &str) {
        self.not_allowed(name, "is there without a value: send one, or leave the parameter out");
    }

    /// The names within a group, such as `fallback`. What is `null` beside them, or in their place, is no way to leave them out.
    pub(super) fn group(&mut self, group: &str, known: &[&str]) -> Vec<String> {
        let is_of = |name: &str| name.strip_prefix(group).is_some_and(|rest| rest.starts_with('['));
        let names: Vec<String> =
            self.parameters.names().into_iter().filter(|name| is_of(name)).map(str::to_owned).collect();
        for name in self.nulls.clone() {
            let is_read = !names.is_empty() && known.contains(&name.as_str());
            if name == group || is_of(&name) && !is_read {
                self.without_value(&name);
            }
        }
        names
    }

    /// A misspelt parameter must not silently do nothing. What was `null` did in a release before.
    pub(super) fn unknown(&mut self, known: &[&str], groups: &[&str]) {
        const MESSAGE: &str = "is not a parameter of this request: remove it or correct its name";
        let is_known = |name: &str| {
            let group = name.split_once('[').filter(|(_, rest)| rest.ends_with(']')).map(|(group, _)| group);
            known.contains(&name) || groups.contains(&group.unwrap_or(name))
        };
        let is_left_out =
            |name: &str| MAY_BE_EMPTY.contains(&name) && self.parameters.text(name) == Field::Missing;
        let names = self.parameters.names().into_iter().filter(|name| !is_left_out(name));
        let names: Vec<String> = names.map(str::to_owned).collect();
        for name in names {
            if groups.contains(&name.as_str()) {
                self.wrong(&name, "must be an object");
            } else if !is_known(&name) {
                self.wrong(&name, MESSAGE);
            }
        }
        for name in self.nulls.clone().into_iter().filter(|name| !is_known(name)) {
            self.not_allowed(&name, MESSAGE);
        }
    }

    /// What is asked for, if nothing is wrong.
    pub(super) fn end<T>(self, asked: T) -> Result<T, NotAllowed<T>> {
        if self.errors.is_empty() { Ok(asked) } else { Err(self.refuse(Some(asked))) }
    }

    /// Why it begins nothing, and what is asked for as far as that is known.
    pub(super) fn refuse<T>(self, asked: Option<T>) -> NotAllowed<T> {
        let asked = asked.filter(|_| self.errors.len() == self.not_allowed).map(Box::new);
        NotAllowed { errors: self.errors, asked }
    }
}

/// JSON objects inside the parameters, written as forms write them: `metadata[name]`.
struct Flat {
    parameters: Parameters,
    /// The names that this makes two of.
    twice: Vec<String>,
    /// See [`Fields::nulls`].
    nulls: Vec<String>,
}

impl Flat {
    fn of(parameters: &Parameters) -> Self {
        let (mut flat, mut twice, mut nulls) = (Map::new(), Vec::new(), Vec::new());
        let Parameters::Json(members) = parameters else {
            return Self { parameters: parameters.clone(), twice, nulls };
        };
        let mut insert = |name: String, value: &Value| {
            if flat.insert(name.clone(), value.clone()).is_some() {
                twice.push(name);
            }
        };
        for (name, value) in members {
            match value {
                Value::Object(inner) if name == "fallback" && inner.is_empty() => nulls.push(name.clone()),
                Value::Object(inner) if matches!(name.as_str(), "metadata" | "fallback") => {
                    for (key, value) in inner {
                        insert(format!("{name}[{key}]"), value);
                    }
                }
                Value::Null => nulls.push(name.clone()),
                Value::String(text) if text.is_empty() && MAY_BE_EMPTY.contains(&name.as_str()) => {}
                other => insert(name.clone(), other),
            }
        }
        Self { parameters: Parameters::Json(flat), twice, nulls }
    }
}

/// An id or a token.
pub fn visible(text: &str, max: usize) -> Result<String, String> {
    let is_good = !text.is_empty() && text.len() <= max && text.bytes().all(|b| b.is_ascii_graphic());
    if is_good { Ok(text.to_owned()) } else { Err(format!("must be 1 to {max} visible ASCII characters")) }
}

/// A provider's token. Whoever sends a card's number instead must not leave it here: Stripe has no token of digits alone, and Adyen's would be taken
/// for one by chance.
pub(super) fn token(text: &str, provider: Provider) -> Result<String, String> {
    if provider == Provider::Stripe && is_card_number(text) {
        return Err("must be a token of the provider's, such as pm_card_visa, and never a card number: it was not kept".to_owned());
    }
    visible(text, TOKEN_MAX)
}

/// Whether it is a number of 13 to 19 digits with the check digit of cards, in groups or not.
/// Source: ISO/IEC 7812-1, annex B.
fn is_card_number(text: &str) -> bool {
    let is_digits = text.chars().all(|c| c.is_ascii_digit() || matches!(c, ' ' | '-'));
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(10)).collect();
    let value = |(place, digit): (usize, &u32)| match place % 2 {
        0 => *digit,
        _ => digit * 2 / 10 + digit * 2 % 10,
    };
    let sum: u32 = digits.iter().rev().enumerate().map(value).sum();
    is_digits && (13..=19).contains(&digits.len()) && sum.is_multiple_of(10)
}

pub(super) fn plain(text: &str, max: usize) -> Result<String, String> {
    let is_good = text.chars().count() <= max && !text.chars().any(char::is_control);
    if is_good {
        Ok(text.to_owned())
    } else {
        Err(format!("must be at most {max} characters, without control characters"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_number_is_no_token_of_stripes() {
        for number in [
            "4242424242424242",
            "4242-4242-4242-4242",
            "4242 4242 4242 4242",
            "378282246310005",
            "6011000990139424",
        ] {
            let refused = token(number, Provider::Stripe).unwrap_err();
            assert!(refused.contains("never a card number"), "{number}: {refused}");
        }
        for good in ["pm_card_visa", "pm_4242424242424242", "4242424242424241", "0", "123456789012"] {
            assert_eq!(token(good, Provider::Stripe).as_deref(), Ok(good));
        }
        assert!(token("4242424242424242", Provider::Adyen).is_ok(), "as some of Adyen's tokens are");
    }
}
