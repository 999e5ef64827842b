//! The parameters of customers: the address in the path, the body, and `If-Match`.

use super::fields::{Fields, plain, token};
use messages::account::Account;
use once::fingerprint::{FieldError, Parameters};
use payments::flows::customer::etag;
use payments::payment::customer::{CustomerContent, IfMatch};
use payments::providers::Provider;
use web::entries::email;
use web::http::Request;
use web::problem::{Kind, Problem};

/// The longest name, in characters: the provider's limit.
pub const NAME_MAX: usize = 256;
/// The longest description, in characters.
pub const DESCRIPTION_MAX: usize = 500;
/// The longest beginning that the id of a customer at Stripe can be given, in characters.
const PREFIX_MAX: usize = 64;
/// How many revisions `If-Match` may name.
const REVISIONS_MAX: usize = 16;

/// An address as it stands for a customer: without white space around it, and the domain in small letters. Who is meant by what is before
/// the @ only that domain knows, so that stays as it is.
pub fn normalized(text: &str) -> Result<String, FieldError> {
    let text = email(text).map_err(|message| FieldError { field: "email".to_owned(), message })?;
    Ok(match text.rsplit_once('@') {
        Some((local, domain)) => format!("{local}@{}", domain.to_ascii_lowercase()),
        None => text,
    })
}

/// Reads the body of `PUT /customers/{email}`.
pub fn customer_content(parameters: &Parameters) -> Result<CustomerContent, Vec<FieldError>> {
    let mut fields = Fields::of(parameters);
    let name = fields.optional("name", |text| plain(text, NAME_MAX));
    let description = fields.optional("description", |text| plain(text, DESCRIPTION_MAX));
    let payment_method = fields.optional("payment_method", |text| token(text, Provider::Stripe));
    fields.unknown(&["name", "description", "payment_method"], &[]);
    // To empty a text and to leave it out is the same.
    let given = |text: Option<String>| text.filter(|text| !text.trim().is_empty());
    let content = CustomerContent { name: given(name), description: given(description), payment_method };
    fields.end(content).map_err(|refused| refused.errors)
}

/// How the ids of the account's customers begin, if they must. At Stripe an id stands in addresses.
pub fn customer_prefix(account: &Account) -> Result<Option<String>, FieldError> {
    let Some(prefix) = &account.customer_prefix else { return Ok(None) };
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if prefix.len() <= PREFIX_MAX && prefix.bytes().all(is_plain) {
        return Ok(Some(prefix.clone()));
    }
    Err(FieldError {
        field: "email".to_owned(),
        message: format!(
            "cannot have a customer here: the customer_prefix of this account must be at most {PREFIX_MAX} letters, digits, - and _ for \
             that"
        ),
    })
}

/// A tag without the mark `W/`. Ours get it on their way: Cloudflare compresses the answer, and marks its strong tag as a weak one.
pub fn without_weak_mark(tag: &str) -> &str {
    tag.strip_prefix("W/").unwrap_or(tag)
}

/// Reads `If-Match` ([RFC 9110](https://www.rfc-editor.org/rfc/rfc9110#section-13.1.1)): `*`, or revisions in quotes. A tag that is none of
/// ours is of no revision; a weak one is the revision that was answered. `If-None-Match` would refuse the retry of a request that has made
/// the customer.
pub fn if_match(request: &Request) -> Result<Option<IfMatch>, Problem> {
    if request.header("if-none-match").is_some() {
        let detail = "If-None-Match is not taken here: a request for a customer that is there already finds it. Leave it out.";
        return Err(Problem::because(Kind::BadRequest, detail));
    }
    let Some(text) = request.header("if-match").map(str::trim) else { return Ok(None) };
    if text == "*" {
        return Ok(Some(IfMatch::Any));
    }
    // A comma in quotes is part of a tag (RFC 9110, section 8.8.3). Empty elements of a list count for nothing (section 5.6.1).
    let mut is_quoted = false;
    let elements = text.split(|c| {
        is_quoted ^= c == '"';
        c == ',' && !is_quoted
    });
    let elements = elements.map(str::trim).filter(|element| !element.is_empty());
    let tags: Vec<&str> = elements.map(without_weak_mark).collect();
    let is_tag = |tag: &&str| tag.starts_with('"') && tag.ends_with('"') && tag.matches('"').count() == 2;
    if tags.is_empty() || tags.len() > REVISIONS_MAX || !tags.iter().all(is_tag) {
        let detail = format!(
            "If-Match is * or up to {REVISIONS_MAX} revisions in quotes, such as \"3\". Nothing was executed."
        );
        return Err(Problem::because(Kind::BadRequest, detail));
    }
    // Tags are compared as they are written: "03" is none of ours.
    let revision =
        |tag: &&str| tag.trim_matches('"').parse().ok().filter(|revision| etag(*revision) == **tag);
    Ok(Some(IfMatch::Revisions(tags.iter().filter_map(revision).collect())))
}
