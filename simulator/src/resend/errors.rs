//! Resend's errors, `{statusCode, name, message}`: <https://resend.com/docs/api-reference/errors>

use serde_json::json;

use crate::http::Reply;

/// One error answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The HTTP status.
    pub status: u16,
    /// Machine-readable reason.
    pub name: &'static str,
    /// For a person.
    pub message: String,
}

impl Problem {
    /// An error with a status, a name and a message.
    pub fn new(status: u16, name: &'static str, message: impl Into<String>) -> Self {
        Problem { status, name, message: message.into() }
    }

    /// A field is missing.
    pub fn missing(field: &str) -> Self {
        Problem::new(422, "missing_required_field", format!("Missing `{field}` field."))
    }

    /// A field is wrong.
    pub fn invalid(message: impl Into<String>) -> Self {
        Problem::new(422, "validation_error", message)
    }

    /// The simulator is broken.
    pub fn broken(message: &str) -> Self {
        Problem::new(500, "internal_server_error", format!("The simulator is broken: {message}"))
    }

    /// The answer.
    pub fn reply(&self) -> Reply {
        let body = json!({ "statusCode": self.status, "name": self.name, "message": self.message });
        let reply = Reply::new(self.status, "application/json", body.to_string());
        if self.status == 429 { reply.with("Retry-After", "1") } else { reply }
    }
}

/// The first request under the key has not ended.
pub fn in_use() -> Problem {
    let message = "Same idempotency key used while original request is still in progress.";
    Problem::new(409, "concurrent_idempotent_requests", message)
}

/// 500.
pub fn server_error() -> Problem {
    Problem::new(500, "application_error", "An unexpected error occurred.")
}
