//! The one endpoint, and its errors.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::clock;
use crate::failure::Failure;
use crate::fault::{CommonRefusal, Effect};
use crate::http::{MAX_BODY_BYTES, Reply, Request};
use crate::idempotency::BoundKey;
use crate::ids;
use crate::provider::{Admitted, ApiRequest, Call, Links};
use crate::sms::message::{MESSAGE, Message};
use crate::text::excerpt;

/// Ten parts of a long message.
const MAX_BODY_CHARS: usize = 1_600;
/// Characters of a reference.
const MAX_REFERENCE_CHARS: usize = 100;

/// A message, checked and not sent.
#[derive(Debug, Clone)]
struct Draft {
    to: String,
    body: String,
    reference: Option<String>,
}

/// One error answer.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Problem {
    status: u16,
    error: &'static str,
    message: String,
    safe_to_retry: bool,
}

impl Problem {
    /// Nothing was sent.
    fn nothing_sent(status: u16, error: &'static str, message: impl Into<String>) -> Self {
        Problem { status, error, message: message.into(), safe_to_retry: true }
    }

    fn invalid(message: &str) -> Self {
        Problem::nothing_sent(422, "invalid_message", message)
    }

    fn reply(&self) -> Reply {
        let body =
            json!({ "error": self.error, "message": self.message, "safe_to_retry": self.safe_to_retry });
        let reply = Reply::new(self.status, "application/json", body.to_string());
        if matches!(self.status, 429 | 503) { reply.with("Retry-After", "1") } else { reply }
    }
}

/// See [`crate::provider::Provider::admit`]. An `Idempotency-Key` is ignored.
pub fn admit(request: &Request) -> Result<Admitted, Box<Reply>> {
    let draft = Draft::of(request).map_err(|problem| Box::new(problem.reply()))?;
    Ok(Admitted { request: Box::new(draft), key: None })
}

impl ApiRequest for Draft {
    fn execute(&self, call: &mut Call, _key: Option<&BoundKey>, effect: Effect) -> Result<Reply, Box<Reply>> {
        let undone = |failure: Failure| Box::new(broken(&failure.message));
        call.settle().map_err(undone)?;
        let message = Message {
            id: format!("msg_{}", ids::word(call.ids, 24)),
            to: self.to.clone(),
            body: self.body.clone(),
            reference: self.reference.clone(),
            status: "queued".to_owned(),
            created_at: clock::date(call.now_s()),
        };
        let links = Links { label: self.reference.clone(), ..Links::default() };
        call.insert(MESSAGE, &message.id, &message, links).map_err(|error| undone(error.into()))?;
        if effect == Effect::ExecuteThenFail {
            let message = "The service failed while it was sending.".to_owned();
            return Ok(Problem { status: 503, error: "unavailable", message, safe_to_retry: false }.reply());
        }
        let answer = json!({ "id": message.id, "status": message.status });
        Ok(Reply::new(201, "application/json", answer.to_string()))
    }
}

/// See [`crate::provider::Provider::refuse`].
pub fn refuse(refusal: CommonRefusal) -> Reply {
    match refusal {
        CommonRefusal::RateLimited => {
            Problem::nothing_sent(429, "rate_limited", "Too many requests; nothing was sent.")
        }
        CommonRefusal::ServerError | CommonRefusal::LockTimeout => {
            Problem::nothing_sent(503, "unavailable", "The service is unavailable; nothing was sent.")
        }
    }
    .reply()
}

/// See [`crate::provider::Provider::broken`].
pub fn broken(message: &str) -> Reply {
    Problem::nothing_sent(500, "simulator_broken", message).reply()
}

impl Draft {
    fn of(request: &Request) -> Result<Self, Problem> {
        if request.bearer().is_none() {
            let message = "Send the API key as Authorization: Bearer KEY.";
            return Err(Problem::nothing_sent(401, "unauthorized", message));
        }
        match (request.method.as_str(), request.path.as_str()) {
            ("POST", "/sms/messages") => Draft::parse(&read(request)?),
            (_, "/sms/messages") => {
                Err(Problem::nothing_sent(405, "method_not_allowed", "Messages are sent with POST."))
            }
            _ => Err(Problem::nothing_sent(404, "not_found", "There is only POST /sms/messages.")),
        }
    }

    fn parse(body: &Value) -> Result<Self, Problem> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Raw {
            to: String,
            body: String,
            reference: Option<String>,
        }
        let raw: Raw = serde_json::from_value(body.clone())
            .map_err(|error| Problem::invalid(&excerpt(&error.to_string())))?;
        if !is_number(&raw.to) {
            return Err(Problem::invalid("`to` must be a telephone number such as +14155550100."));
        }
        if raw.body.trim().is_empty() || raw.body.chars().count() > MAX_BODY_CHARS {
            return Err(Problem::invalid("`body` must have 1 to 1600 characters."));
        }
        let reference_fits = |text: &String| (1..=MAX_REFERENCE_CHARS).contains(&text.chars().count());
        if !raw.reference.as_ref().is_none_or(reference_fits) {
            return Err(Problem::invalid("`reference` must have 1 to 100 characters."));
        }
        Ok(Draft { to: raw.to, body: raw.body, reference: raw.reference })
    }
}

fn read(request: &Request) -> Result<Value, Problem> {
    if request.body.len() > MAX_BODY_BYTES {
        return Err(Problem::nothing_sent(400, "invalid_request", "The body is too large."));
    }
    serde_json::from_slice(&request.body).map_err(|error| {
        Problem::nothing_sent(400, "invalid_request", format!("The body is no JSON: {error}"))
    })
}

/// E.164: a plus and 7 to 15 digits.
fn is_number(text: &str) -> bool {
    text.strip_prefix('+').is_some_and(|digits| {
        (7..=15).contains(&digits.len())
            && !digits.starts_with('0')
            && digits.bytes().all(|byte| byte.is_ascii_digit())
    })
}

#[cfg(test)]
mod tests {
    use super::is_number;

    #[test]
    fn numbers_are_international() {
        assert!(is_number("+14155550100"));
        for bad in ["", "+", "14155550100", "+0123456789", "+1 415 555 0100", "+123456", "+1234567890123456"]
        {
            assert!(!is_number(bad), "{bad}");
        }
    }
}
