//! Resend's side of [`crate::api`]: sending an email, and reading it. <https://resend.com/docs/api-reference/emails/send-email>
//!
//! - `POST /resend/emails` → 200 `{id}`; the email is in the mailbox, `GET /_sim/mailbox`. `GET /resend/emails/{id}` reads it.
//! - What was sent is kept under its `Idempotency-Key` for 24 hours: a replay has the same id and sends nothing. An error keeps nothing, for
//!   nothing was sent; where a fault answers 500 *after* sending, the key has the id all the same.
//!
//! Errors are `{statusCode, name, message}`: <https://resend.com/docs/api-reference/errors>

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::adyen::body::fingerprint;
use crate::api::{self, Admitted, MAX_BODY_BYTES};
use crate::call::{Call, Links};
use crate::clock;
use crate::errors::Failure;
use crate::faults::Common;
use crate::http::{Reply, Request};
use crate::idempotency::{self, BadLength, BoundKey, InFlight, Lookup, Mismatch};
use crate::ids;
use crate::params::excerpt;
use crate::provider::Provider;
use crate::store::{Kind, Store};

/// Recipients of one email.
const MAX_RECIPIENTS: usize = 50;

/// What Resend knows of an email. The rest of its fields is refused by name: an email that is half sent is worse than none.
const FIELDS: &[&str] = &["from", "to", "subject", "html", "text", "reply_to", "headers", "tags"];

/// What a request asks for.
#[derive(Debug)]
pub enum Order {
    /// `POST /resend/emails`
    Send(Box<Draft>),
    /// `GET /resend/emails/{id}`
    Retrieve(String),
}

/// An email, checked and not sent.
#[derive(Debug, Clone)]
pub struct Draft {
    from: String,
    to: Vec<String>,
    subject: String,
    html: Option<String>,
    text: Option<String>,
    reply_to: Vec<String>,
    headers: Map<String, Value>,
    tags: Vec<Tag>,
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
    object: String,
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
    bcc: Vec<String>,
    cc: Vec<String>,
    /// Who gets the answers.
    pub reply_to: Vec<String>,
    /// The caller's own headers.
    pub headers: Map<String, Value>,
    tags: Vec<Tag>,
    last_event: String,
}

/// One error answer.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Problem {
    status: u16,
    name: &'static str,
    message: String,
}

impl Problem {
    fn new(status: u16, name: &'static str, message: impl Into<String>) -> Self {
        Problem { status, name, message: message.into() }
    }

    fn missing(field: &str) -> Self {
        Problem::new(422, "missing_required_field", format!("Missing `{field}` field."))
    }

    fn invalid(message: impl Into<String>) -> Self {
        Problem::new(422, "validation_error", message)
    }

    fn broken(message: &str) -> Self {
        Problem::new(500, "internal_server_error", format!("The simulator is broken: {message}"))
    }

    fn reply(&self) -> Reply {
        let body = json!({ "statusCode": self.status, "name": self.name, "message": self.message });
        let reply = Reply::new(self.status, "application/json", body.to_string());
        if self.status == 429 { reply.with("Retry-After", "1") } else { reply }
    }
}

/// See [`api::admit`].
pub fn admit(
    store: &mut dyn Store,
    in_flight: &InFlight,
    now_ms: i64,
    request: &Request,
) -> Result<Admitted, Box<Reply>> {
    let refuse = |problem: Problem| Box::new(problem.reply());
    check_api_key(request).map_err(refuse)?;
    let (order, fingerprint) = Order::of(request).map_err(refuse)?;
    let key = BoundKey::of(request, Provider::Resend, fingerprint).map_err(|BadLength| {
        refuse(Problem::new(400, "invalid_idempotency_key", "The key must be between 1-256 chars."))
    })?;
    let admitted = Admitted { order: api::Order::Resend(order), key };
    let Some(bound) = &admitted.key else {
        return Ok(admitted);
    };
    let known =
        idempotency::prune(store, now_ms).and_then(|()| idempotency::look_up(store, in_flight, bound));
    match known.map_err(|error| refuse(Problem::broken(&error.0)))? {
        Lookup::New => Ok(admitted),
        Lookup::InUse => Err(refuse(in_use())),
        Lookup::Mismatch(Mismatch::OtherEndpoint(_) | Mismatch::OtherParameters) => {
            let message = "Same idempotency key used with a different request payload.";
            Err(refuse(Problem::new(409, "invalid_idempotent_request", message)))
        }
        Lookup::Replay(stored) => {
            let mut reply = Reply::new(stored.status, "application/json", stored.body);
            reply.replayed = true;
            Err(Box::new(reply))
        }
    }
}

/// See [`api::execute`].
pub fn execute(
    call: &mut Call,
    order: &Order,
    key: Option<&BoundKey>,
    then_fail: bool,
) -> Result<Reply, Box<Reply>> {
    let undone = |failure: Failure| Box::new(Problem::broken(&failure.into_message()).reply());
    clock::settle(call).map_err(undone)?;
    let answer = match order {
        Order::Send(draft) => send(call, draft).map_err(undone)?,
        Order::Retrieve(id) => match find(call.store, id).map_err(undone)? {
            Some(email) => serde_json::to_value(email).map_err(|error| undone(error.into()))?,
            None => return Ok(Problem::new(404, "not_found", "Email not found").reply()),
        },
    };
    let reply = Reply::new(200, "application/json", answer.to_string());
    if let Some(key) = key {
        idempotency::keep(call.store, key, &reply, call.request_id, call.now_ms)
            .map_err(|error| undone(error.into()))?;
    }
    Ok(if then_fail { server_error().reply() } else { reply })
}

/// See [`api::refuse`].
pub fn refuse(refusal: Common) -> Reply {
    match refusal {
        Common::ServerError => server_error(),
        Common::RateLimited => Problem::new(
            429,
            "rate_limit_exceeded",
            "Too many requests. Please limit the number of requests per second. Or contact support to increase rate limit.",
        ),
        Common::LockTimeout => in_use(),
    }
    .reply()
}

/// See [`api::broken`].
pub fn broken(message: &str) -> Reply {
    Problem::broken(message).reply()
}

/// An email by its id.
pub fn find(store: &dyn Store, id: &str) -> Result<Option<Email>, Failure> {
    match store.find(Kind::Email, id)? {
        Some(row) => Ok(Some(serde_json::from_str(&row.body)?)),
        None => Ok(None),
    }
}

impl Order {
    /// Finds the endpoint and reads the body; with the fingerprint of that.
    fn of(request: &Request) -> Result<(Self, String), Problem> {
        let path = request.path.strip_prefix("/resend/").unwrap_or_default();
        let segments: Vec<&str> = path.split('/').collect();
        match (request.method.as_str(), segments.as_slice()) {
            ("POST", ["emails"]) => {
                let body = read(request)?;
                Ok((Order::Send(Box::new(Draft::parse(&body)?)), fingerprint(&body)))
            }
            ("GET", ["emails", id]) => Ok((Order::Retrieve((*id).to_owned()), String::new())),
            (_, ["emails"] | ["emails", _]) => {
                Err(Problem::new(405, "method_not_allowed", "Method is not allowed for the requested path."))
            }
            _ => Err(Problem::new(404, "not_found", "The requested endpoint does not exist.")),
        }
    }
}

fn read(request: &Request) -> Result<Value, Problem> {
    let unreadable = |message: String| Problem::new(400, "validation_error", message);
    if request.body.len() > MAX_BODY_BYTES {
        return Err(unreadable("The request body is too large.".to_owned()));
    }
    match serde_json::from_slice(&request.body) {
        Ok(body @ Value::Object(_)) => Ok(body),
        Ok(_) => Err(unreadable("The request body must be a JSON object.".to_owned())),
        Err(error) => Err(unreadable(format!("The request body is no JSON: {error}"))),
    }
}

impl Draft {
    fn parse(body: &Value) -> Result<Self, Problem> {
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

fn send(call: &mut Call, draft: &Draft) -> Result<Value, Failure> {
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
    call.insert(Kind::Email, &id, &email, Links::default())?;
    Ok(json!({ "id": id }))
}

/// Any key that begins with `re_` is taken, and none is stored: the header is looked at and forgotten.
fn check_api_key(request: &Request) -> Result<(), Problem> {
    let key = request.bearer().ok_or_else(|| {
        let message = "Missing API key in the authorization header. Include the following header in the request: `Authorization: Bearer \
                       YOUR_API_KEY`.";
        Problem::new(401, "missing_api_key", message)
    })?;
    if key.starts_with("re_") {
        Ok(())
    } else {
        Err(Problem::new(403, "invalid_api_key", "API key is invalid"))
    }
}

fn in_use() -> Problem {
    let message = "Same idempotency key used while original request is still in progress.";
    Problem::new(409, "concurrent_idempotent_requests", message)
}

fn server_error() -> Problem {
    Problem::new(500, "application_error", "An unexpected error occurred.")
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
