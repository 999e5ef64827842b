//! The fields of a request, on their way to being read: every one that is wrong is named.

use serde_json::{Map, Value};

use once::fingerprint::{Field, FieldError, Parameters};
use web::http::FIELD_SHOWN_MAX;

/// What has no other meaning where it is left out than where it is empty.
const MAY_BE_EMPTY: [&str; 3] = ["description", "return_url", "receipt_email"];

/// Parameters on their way to being read.
pub(super) struct Fields {
    pub(super) parameters: Parameters,
    pub(super) errors: Vec<FieldError>,
    /// The names of what is there without a value, where that is no way to leave it out.
    empty: Vec<String>,
    /// How many of the errors are about what is allowed, and not about the request itself.
    pub(super) not_allowed: usize,
}

impl Fields {
    pub(super) fn of(parameters: &Parameters) -> Self {
        let (parameters, twice) = flat(parameters);
        let mut fields = Self { parameters, errors: Vec::new(), empty: Vec::new(), not_allowed: 0 };
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
        self.errors.push(FieldError {
            field: field.chars().take(FIELD_SHOWN_MAX).collect(),
            message: message.into(),
        });
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
            Field::Text(_) if self.parameters.is_boolean(name) && name != "capture" => {
                Err("must be a text, not true or false".to_owned())
            }
            Field::Text(text) => read(&text),
            Field::NotText => Err("must be given once, as one value".to_owned()),
        };
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

    /// A release before took it for left out: what was begun then is answered still.
    fn say_if_empty(&mut self, name: &str) {
        if self.empty.iter().any(|empty| empty == name) {
            self.not_allowed(name, "is there without a value: send one, or leave the parameter out");
        }
    }

    /// A misspelt parameter must not silently do nothing.
    pub(super) fn unknown(&mut self, known: &[&str], groups: &[&str]) {
        let names: Vec<String> = self.parameters.names().into_iter().map(str::to_owned).collect();
        for name in names {
            let group = name.split_once('[').filter(|(_, rest)| rest.ends_with(']')).map(|(group, _)| group);
            let is_group = groups.contains(&name.as_str());
            if is_group {
                self.wrong(&name, "must be an object");
            } else if !known.contains(&name.as_str()) && !group.is_some_and(|group| groups.contains(&group)) {
                self.wrong(&name, "is not a parameter of this request: remove it or correct its name");
            }
        }
    }

    pub(super) fn end<T>(self, value: T) -> Result<T, Vec<FieldError>> {
        if self.errors.is_empty() { Ok(value) } else { Err(self.errors) }
    }
}

/// JSON objects inside the parameters, written as forms write them: `metadata[name]`. And the names that this makes two of.
fn flat(parameters: &Parameters) -> (Parameters, Vec<String>) {
    let Parameters::Json(members) = parameters else {
        return (parameters.clone(), Vec::new());
    };
    let (mut flat, mut twice) = (Map::new(), Vec::new());
    let mut insert = |name: String, value: &Value| {
        if flat.insert(name.clone(), value.clone()).is_some() {
            twice.push(name);
        }
    };
    for (name, value) in members {
        match value {
            Value::Object(inner) if matches!(name.as_str(), "metadata" | "fallback") => {
                for (key, value) in inner {
                    insert(format!("{name}[{key}]"), value);
                }
            }
            Value::Null => {}
            other => insert(name.clone(), other),
        }
    }
    (Parameters::Json(flat), twice)
}

/// An id or a token.
pub fn visible(text: &str, max: usize) -> Result<String, String> {
    let is_good = !text.is_empty() && text.len() <= max && text.bytes().all(|b| b.is_ascii_graphic());
    if is_good { Ok(text.to_owned()) } else { Err(format!("must be 1 to {max} visible ASCII characters")) }
}

pub(super) fn plain(text: &str, max: usize) -> Result<String, String> {
    let is_good = text.chars().count() <= max && !text.chars().any(char::is_control);
    if is_good {
        Ok(text.to_owned())
    } else {
        Err(format!("must be at most {max} characters, without control characters"))
    }
}
