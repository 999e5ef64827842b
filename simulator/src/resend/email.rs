//! An email: read and checked, sent, and found again.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::clock;
use crate::failure::Outcome;
use crate::ids;
use crate::provider::{Call, Links};
use crate::resend::errors::Problem;
use crate::store::{Kind, Store};
use crate::text::excerpt;

/// The kind of an email that was sent.
pub const EMAIL: Kind = Kind("email");

/// Recipients of one email.
const MAX_RECIPIENTS: usize = 50;

/// What Resend knows of an email. The rest of its fields is refused by name: an email that is half sent is worse than none.
const FIELDS: &[&str] = &["from", "to", "subject", "html", "text", "reply_to", "headers", "tags"];

/// An email, checked and not sent.
#[derive(Debug, Clone)]
pub struct Draft {
    pub(super) from: String,
    pub(super) to: Vec<String>,
    pub(super) subject: String,
    pub(super) html: Option<String>,
    pub(super) text: Option<String>,
    pub(super) reply_to: Vec<String>,
    pub(super) headers: Map<String, Value>,
    pub(super) tags: Vec<Tag>,
}

/// A label of an email.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tag {
    name: String,
    value: String,
}

/// An email that was sent.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Email {
    pub(super) object: String,
    /// A UUID.
    pub id: String,
    /// To whom.
    pub to: Vec<String>,
    /// From whom.
    pub from: String,
    /// When, in UTC.
    pub created_at: String,
    /// What about.
    pub subject: String,
    /// The content with its looks.
    pub html: Option<String>,
    /// The content without.
    pub text: Option<String>,
    pub(super) bcc: Vec<String>,
    pub(super) cc: Vec<String>,
    /// Who gets the answers.
    pub reply_to: Vec<String>,
    /// The caller's own headers.
    pub headers: Map<String, Value>,
    pub(super) tags: Vec<Tag>,
    pub(super) last_event: String,
}

impl Draft {
    /// Reads and checks a body.
    pub fn parse(body: &Value) -> Result<Self, Problem> {
        let fields = body.as_object().cloned().unwrap_or_default();
        if let Some(unknown) = fields.keys().find(|name| !FIELDS.contains(&name.as_str())) {
            return Err(Problem::invalid(format!(
                "The simulator does not know the field `{}`.",
                excerpt(unknown)
            )));
        }
        let from = text(&fields, "from")?.ok_or_else(|| Problem::missing("from"))?;
        if !is_address(&from) {
            return Err(address_format("from"));
        }
        let to = addresses(&fields, "to")?.ok_or_else(|| Problem::missing("to"))?;
        if to.is_empty() || to.len() > MAX_RECIPIENTS {
            return Err(Problem::invalid(format!(
                "The `to` field must have 1 to {MAX_RECIPIENTS} addresses."
            )));
        }
        let subject = text(&fields, "subject")?.ok_or_else(|| Problem::missing("subject"))?;
        let (html, plain) = (text(&fields, "html")?, text(&fields, "text")?);
        if html.is_none() && plain.is_none() {
            return Err(Problem::new(422, "missing_required_field", "Missing `html` or `text` field."));
        }
        let headers = match fields.get("headers") {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(headers)) if headers.values().all(Value::is_string) => headers.clone(),
            Some(_) => return Err(Problem::invalid("The `headers` field must be an object of texts.")),
        };
        let tags: Vec<Tag> = match fields.get("tags") {
            None | Some(Value::Null) => Vec::new(),
            Some(tags) => serde_json::from_value(tags.clone()).map_err(|_| {
                Problem::invalid("The `tags` field must be an array of objects with `name` and `value`.")
            })?,
        };
        if !tags.iter().all(|tag| is_tag(&tag.name) && is_tag(&tag.value)) {
            return Err(Problem::invalid(
                "Tags should only contain ASCII letters, numbers, underscores, or dashes, and at most 256 of them.",
            ));
        }
        let reply_to = addresses(&fields, "reply_to")?.unwrap_or_default();
        Ok(Draft { from, to, subject, html, text: plain, reply_to, headers, tags })
    }
}

fn text(fields: &Map<String, Value>, name: &str) -> Result<Option<String>, Problem> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone()).filter(|text| !text.is_empty())),
        Some(_) => Err(Problem::invalid(format!("The `{name}` field must be a string."))),
    }
}

/// One address, or an array of them.
fn addresses(fields: &Map<String, Value>, name: &str) -> Result<Option<Vec<String>>, Problem> {
    let list = match fields.get(name) {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Array(list)) => list.clone(),
        Some(one) => vec![one.clone()],
    };
    let valid = |value: &Value| value.as_str().filter(|text| is_address(text)).map(str::to_owned);
    list.iter().map(valid).collect::<Option<Vec<String>>>().map(Some).ok_or_else(|| address_format(name))
}

fn address_format(field: &str) -> Problem {
    Problem::invalid(format!(
        "Invalid `{field}` field. The email address needs to follow the `email@example.com` or `Name <email@example.com>` format."
    ))
}

/// `email@example.com` or `Name <email@example.com>`. No more of the grammar: whether an address exists only its server knows.
fn is_address(text: &str) -> bool {
    let address = match text.strip_suffix('>').and_then(|text| text.split_once('<')) {
        Some((_, address)) => address,
        None => text,
    };
    let plain = |part: &str| {
        !part.is_empty()
            && part.chars().all(|any| !any.is_whitespace() && !any.is_control() && !"<>,;@\"".contains(any))
    };
    let no_line_break = !text.contains(char::is_control);
    no_line_break
        && text.chars().count() <= 320
        && address.split_once('@').is_some_and(|(local, domain)| {
            plain(local)
                && plain(domain)
                && domain.contains('.')
                && !domain.starts_with('.')
                && !domain.ends_with('.')
        })
}

fn is_tag(text: &str) -> bool {
    (1..=256).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

/// Sends an email: it is in the mailbox.
pub fn send(call: &mut Call, draft: &Draft) -> Outcome<Value> {
    let id = ids::uuid(call.ids);
    let draft = draft.clone();
    let email = Email {
        object: "email".to_owned(),
        id: id.clone(),
        to: draft.to,
        from: draft.from,
        created_at: clock::date(call.now_s()),
        subject: draft.subject,
        html: draft.html,
        text: draft.text,
        bcc: Vec::new(),
        cc: Vec::new(),
        reply_to: draft.reply_to,
        headers: draft.headers,
        tags: draft.tags,
        last_event: "delivered".to_owned(),
    };
    call.insert(EMAIL, &id, &email, Links::default())?;
    Ok(json!({ "id": id }))
}

/// An email by its id.
pub fn find(store: &dyn Store, id: &str) -> Outcome<Option<Email>> {
    match store.find(EMAIL, id)? {
        Some(row) => Ok(Some(serde_json::from_str(&row.body)?)),
        None => Ok(None),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_bare_or_named() {
        for good in ["a@b.test", "Paid Once <receipts@paid-once.test>", "a+b@c.d.test"] {
            assert!(is_address(good), "{good}");
        }
        for bad in [
            "",
            "a",
            "a@b",
            "a@.b",
            "a@b.",
            "a b@c.test",
            "A <a@b.test",
            "a@b.test\r\nBcc: c@d.test",
            "a@b@c.test",
        ] {
            assert!(!is_address(bad), "{bad}");
        }
    }

    #[test]
    fn an_email_lacks_nothing_and_has_nothing_unknown() {
        let good = json!({ "from": "a@b.test", "to": "c@d.test", "subject": "s", "text": "t" });
        assert!(Draft::parse(&good).is_ok());
        for (field, name) in [
            ("from", "missing_required_field"),
            ("to", "missing_required_field"),
            ("subject", "missing_required_field"),
            ("text", "missing_required_field"),
        ] {
            let mut without = good.clone();
            without.as_object_mut().unwrap().remove(field);
            assert_eq!(Draft::parse(&without).unwrap_err().name, name, "{field}");
        }
        for (field, value) in [
            ("to", json!([])),
            ("to", json!(["c@d.test", "nobody"])),
            ("to", json!(vec!["c@d.test"; 51])),
            ("from", json!("nobody")),
            ("html", json!(1)),
            ("tags", json!([{ "name": "a b", "value": "c" }])),
            ("headers", json!({ "X-A": 1 })),
            ("attachments", json!([])),
        ] {
            let mut with = good.clone();
            with.as_object_mut().unwrap().insert(field.to_owned(), value);
            assert_eq!(Draft::parse(&with).unwrap_err().status, 422, "{field}");
        }
    }
}
