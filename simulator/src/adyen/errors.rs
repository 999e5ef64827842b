//! Adyen's errors: `{status, errorCode, message, errorType, pspReference}`, and RFC 7807. <https://docs.adyen.com/development-resources/error-codes>
//!
//! The codes are Adyen's where they are known; `UNSPECIFIED` stands where they are not.

use serde_json::json;

use crate::failure;
use crate::http::Reply;
use crate::store::StoreError;

/// How Adyen writes the type of its answers.
pub const JSON: &str = "application/json;charset=UTF-8";
/// `702`: the structure of the request is wrong.
const STRUCTURE: &str = "702";
/// `000`: nothing more exact than the status is said.
const UNSPECIFIED: &str = "000";

/// One error answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The HTTP status.
    pub status: u16,
    /// Machine-readable reason.
    pub error_code: &'static str,
    /// For a person.
    pub message: String,
    /// `validation`, `security`, `configuration` or `internal`.
    pub error_type: &'static str,
    /// `transient-error: true`: nothing happened, and the same request may be sent again under the same key.
    pub transient: bool,
}

impl Problem {
    fn new(status: u16, error_code: &'static str, error_type: &'static str, message: &str) -> Self {
        Problem { status, error_code, message: message.to_owned(), error_type, transient: false }
    }

    /// 422: a value is wrong.
    pub fn validation(error_code: &'static str, message: &str) -> Self {
        Problem::new(422, error_code, "validation", message)
    }

    /// 400 `702`: the request cannot be read.
    pub fn malformed(message: &str) -> Self {
        Problem::new(400, STRUCTURE, "validation", message)
    }

    fn transient(mut self) -> Self {
        self.transient = true;
        self
    }

    /// The answer in the other form that Adyen documents.
    pub fn by_rfc_7807(&self, request_id: &str) -> Reply {
        let body = json!({
            "type": format!("https://docs.adyen.com/errors/{}", self.error_type), "title": self.error_type, "status": self.status,
            "detail": self.message, "requestId": request_id, "errorCode": self.error_code,
        });
        Reply::new(self.status, "application/problem+json", body.to_string()).with("requestId", request_id)
    }

    /// The answer.
    pub fn reply(&self, psp_reference: &str) -> Reply {
        let body = json!({
            "status": self.status, "errorCode": self.error_code, "message": self.message, "errorType": self.error_type,
            "pspReference": psp_reference,
        });
        let reply = Reply::new(self.status, JSON, body.to_string()).with("pspReference", psp_reference);
        if self.transient { reply.with("transient-error", "true") } else { reply }
    }
}

/// Why a request had no effect: everything written is undone, and nothing is kept under the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// Refused.
    Refused(Problem),
    /// The simulator is broken.
    Broken(String),
}

/// What an operation returns.
pub type Fallible<T> = Result<T, Failure>;

/// The answer to a failure.
pub fn reply_of(failure: &Failure, psp_reference: &str) -> Reply {
    match failure {
        Failure::Refused(problem) => problem.reply(psp_reference),
        Failure::Broken(message) => {
            let message = format!("The simulator is broken: {message}");
            Problem::new(500, UNSPECIFIED, "internal", &message).reply(psp_reference)
        }
    }
}

/// 401.
pub fn unauthorised() -> Problem {
    Problem::new(401, UNSPECIFIED, "security", "HTTP Status Response - Unauthorized")
}

/// 404 for the address.
pub fn no_endpoint() -> Problem {
    let message = "There is no such endpoint. The simulator knows POST /payments, /payments/details, /paymentMethods and, below a payment, \
                   /captures, /cancels and /refunds.";
    Problem::new(404, UNSPECIFIED, "validation", message)
}

/// 415.
pub fn unsupported_media_type() -> Problem {
    Problem::new(415, UNSPECIFIED, "validation", "Unsupported Media Type: send application/json")
}

/// `704`: the first request under the key has not ended.
pub fn in_progress() -> Problem {
    Problem::validation("704", "request already processed or in progress").transient()
}

/// The key was used for something else. Adyen does not document its answer; trying again is of no use, so it is not transient.
pub fn other_request() -> Problem {
    Problem::validation(STRUCTURE, "The Idempotency-Key was already used for a request with other parameters")
}

/// The key has no, or too many, characters.
pub fn bad_key_length() -> Problem {
    Problem::validation(STRUCTURE, "The Idempotency-Key must have 1 to 64 characters")
}

/// 500. It is transient if nothing has happened.
pub fn server_error(transient: bool) -> Problem {
    let problem = Problem::new(500, UNSPECIFIED, "internal", "HTTP Status Response - Internal Server Error");
    if transient { problem.transient() } else { problem }
}

/// 503 `703`: keys cannot be checked, and nothing is executed that has one.
pub fn key_store_down() -> Problem {
    Problem::new(503, "703", "internal", "Required resource temporarily unavailable")
}

/// The rate limit as Adyen documents it: an internal error.
pub fn too_many_requests() -> Problem {
    Problem::new(500, UNSPECIFIED, "internal", "Too many requests")
}

/// 500 for what is set up wrongly at Adyen: the request never gets to an acquirer.
pub fn misconfigured() -> Problem {
    let message = "Could not find an acquirer account for the provided txvariant, currency, and action";
    Problem::new(500, "905_1", "configuration", message)
}

/// 422 `14_030`.
pub fn return_url_missing() -> Problem {
    Problem::validation("14_030", "Return URL is missing.")
}

/// 429.
pub fn rate_limited() -> Problem {
    Problem::new(429, UNSPECIFIED, "internal", "HTTP Status Response - Too Many Requests").transient()
}

/// 403 `901`.
pub fn invalid_merchant_account() -> Problem {
    Problem::new(403, "901", "security", "Invalid Merchant Account")
}

/// 422 `167`: there is no payment to modify.
pub fn no_such_payment() -> Problem {
    Problem::validation("167", "Original pspReference required for this operation")
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Failure::Refused(problem)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Failure::Broken(error.0)
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Failure::Broken(error.to_string())
    }
}

/// Time refuses nothing: what fails there is broken.
impl From<failure::Failure> for Failure {
    fn from(failure: failure::Failure) -> Self {
        Failure::Broken(failure.message)
    }
}

/// Where the clock or the control surface runs Adyen's rules, there is no caller who could be refused.
impl From<Failure> for failure::Failure {
    fn from(failure: Failure) -> Self {
        failure::Failure::broken(match failure {
            Failure::Refused(problem) => problem.message,
            Failure::Broken(message) => message,
        })
    }
}
