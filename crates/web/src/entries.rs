//! What all forms, and the parameters that they have in common with an API client's, are made of: the field for the receipt, what is shown
//! again, and what is said above them.

use crate::http::{FIELD_SHOWN_MAX, percent_decode};
use crate::locale::Messages;
use crate::pages::{Entry, Notice, Site};
use once::fingerprint::{Canonical, Field, FieldError, Parameters};

/// Fields of the transport: no part of the operation or its fingerprint.
pub const TRANSPORT_FIELDS: [&str; 2] = ["idempotency_key", "raise_error"];

/// What a fresh form of the demo suggests: its mail goes nowhere but into the simulator's mailbox.
pub const SUGGESTED_EMAIL: &str = "you@example.com";
/// The most of an address that a form shows again.
pub const EMAIL_MAX: usize = 254;

/// How many parameters in an address are named.
const IN_ADDRESS_MAX: usize = 20;

/// What is wrong with a request that has parameters in its address: nobody would read them, so that a refund of a part became one of all that is
/// left. Nor are they part of the fingerprint.
pub fn in_address(query: &str) -> Vec<FieldError> {
    let names =
        query.split('&').filter(|pair| !pair.is_empty()).map(|pair| pair.split('=').next().unwrap_or(pair));
    let decoded = |name: &str| percent_decode(name).unwrap_or_else(|| name.to_owned());
    let wrong = |name| field_error(&decoded(name), "stands in the address: send it in the body");
    names.take(IN_ADDRESS_MAX).map(wrong).collect()
}

/// What is wrong with a field whose name the client has chosen: so much of the name is shown as anybody needs.
pub fn field_error(field: &str, message: impl Into<String>) -> FieldError {
    FieldError { field: field.chars().take(FIELD_SHOWN_MAX).collect(), message: message.into() }
}

/// An address for receipts.
pub fn email(text: &str) -> Result<String, String> {
    let text = text.trim();
    if is_address(text) {
        return Ok(text.to_owned());
    }
    Err("must be one address for email, such as ada@example.com".to_owned())
}

/// Whether this can be an email address; the provider checks the rest.
fn is_address(text: &str) -> bool {
    let plain = |b: u8| {
        b.is_ascii_graphic() && !matches!(b, b'<' | b'>' | b'"' | b'(' | b')' | b',' | b';' | b':' | b'\\')
    };
    match text.rsplit_once('@') {
        Some((local, domain)) => {
            text.len() <= 254
                && text.bytes().all(plain)
                && !local.is_empty()
                && !local.contains('@')
                && domain.split('.').count() >= 2
                && domain.split('.').all(|label| !label.is_empty())
        }
        None => false,
    }
}

/// The field for the receipt of a form, which may be left empty.
pub fn receipt_email(parameters: &Parameters) -> Result<Option<String>, FieldError> {
    match parameters.text("email") {
        Field::Missing => Ok(None),
        Field::Text(text) if text.trim().is_empty() => Ok(None),
        Field::Text(text) => email(&text).map(Some),
        Field::NotText => Err("must be given once".to_owned()),
    }
    .map_err(|message| FieldError { field: "email".to_owned(), message })
}

/// The same field as a form shows it: fresh, or as it was entered, with what is wrong with it as a whole sentence.
pub fn email_entry(site: &Site, kept: Option<&Parameters>, errors: &[FieldError]) -> Entry {
    let value = match kept.map(|parameters| parameters.text("email")) {
        None if site.demo => SUGGESTED_EMAIL.to_owned(),
        None => String::new(),
        Some(email) => email.or_empty().chars().take(EMAIL_MAX).collect(),
    };
    let is_wrong = errors.iter().any(|error| error.field == "email");
    Entry { value, error: if is_wrong { site.t.email_wrong.to_owned() } else { String::new() } }
}

/// A misspelt parameter must not silently do nothing.
pub fn unknown(parameters: &Parameters, known: impl Fn(&str) -> bool) -> Vec<FieldError> {
    let unknown = parameters.names().into_iter().filter(|name| !known(name));
    unknown
        .map(|name| field_error(name, "is not a parameter of this request: remove it or correct its name"))
        .collect()
}

/// What was read, where there is nothing else in it.
pub fn without_unknown<T>(
    parameters: &Parameters,
    known: impl Fn(&str) -> bool,
    result: Result<T, Vec<FieldError>>,
) -> Result<T, Vec<FieldError>> {
    let unknown = unknown(parameters, known);
    match result {
        Ok(value) if unknown.is_empty() => Ok(value),
        result => Err(result.err().into_iter().flatten().chain(unknown).collect()),
    }
}

/// What to say above a form whose errors are not all at its own inputs: a field that does not belong to it.
pub fn foreign_fields(t: &Messages, errors: &[FieldError], inputs: &[&str]) -> Option<Notice> {
    let foreign =
        |error: &&FieldError| error.field != "payment_method" && !inputs.contains(&error.field.as_str());
    let names: Vec<&str> = errors.iter().filter(foreign).map(|error| error.field.as_str()).collect();
    (!names.is_empty()).then(|| Notice::new("warning", t.form_changed, t.foreign_fields(&names.join(", "))))
}

/// The entries of a form as they were sent, from the stored canonical text.
pub fn kept(canonical: &Canonical) -> Option<Parameters> {
    json_text::from_str::<Vec<(String, String)>>(&canonical.0).ok().map(Parameters::Form)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for good in ["a@b.example", "user+tag@mail.example.com"] {
            assert!(is_address(good), "{good}");
        }
        for bad in [
            "",
            "a",
            "a@b",
            "@b.example",
            "a@b..example",
            "a b@c.example",
            "a@b@c.example",
            "a@b.example\r\nBcc: x@y.z",
        ] {
            assert!(!is_address(bad), "{bad}");
        }
    }
}
