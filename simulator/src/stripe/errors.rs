//! Stripe's errors: <https://docs.stripe.com/api/errors> and <https://docs.stripe.com/error-codes>.
//!
//! A [`Failure`] says not only what went wrong but whether the endpoint had begun to execute, because that alone decides whether the answer
//! is kept under the idempotency key (<https://docs.stripe.com/error-low-level#content-errors>):
//! - [`Failure::Refused`]: nothing began; nothing is stored, all writes are undone, the same key may be used again.
//! - [`Failure::Outcome`]: execution began; the answer is stored and replayed.
//! - [`Failure::Broken`]: the simulator itself failed; all writes are undone.

use serde_json::{Value, json};
use strum::IntoStaticStr;

use crate::failure;
use crate::store::StoreError;
use crate::stripe::kinds::Kind;

/// `error.type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr)]
pub enum ErrorType {
    /// The request cannot work as it is.
    #[strum(serialize = "invalid_request_error")]
    InvalidRequest,
    /// The card was declined.
    #[strum(serialize = "card_error")]
    Card,
    /// A key was used again with something else.
    #[strum(serialize = "idempotency_error")]
    Idempotency,
    /// Something went wrong on Stripe's side.
    #[strum(serialize = "api_error")]
    Api,
}

/// One error answer.
#[derive(Debug, Clone, PartialEq)]
pub struct ApiError {
    /// The HTTP status.
    pub status: u16,
    /// Whose fault it is.
    pub kind: ErrorType,
    /// Machine-readable reason.
    pub code: Option<String>,
    /// The issuer's reason.
    pub decline_code: Option<String>,
    /// The parameter at fault.
    pub param: Option<String>,
    /// For a person.
    pub message: String,
    /// The failed charge.
    pub charge: Option<String>,
    /// The PaymentIntent, which persists: keep its id.
    pub payment_intent: Option<Value>,
    /// The payment method that was declined.
    pub payment_method: Option<Value>,
    /// `Stripe-Should-Retry`; absent means that the status decides.
    pub should_retry: Option<bool>,
}

impl ApiError {
    /// An error with a status, a type and a message.
    pub fn new(status: u16, kind: ErrorType, message: impl Into<String>) -> Self {
        ApiError {
            status,
            kind,
            code: None,
            decline_code: None,
            param: None,
            message: message.into(),
            charge: None,
            payment_intent: None,
            payment_method: None,
            should_retry: None,
        }
    }

    /// 400 `invalid_request_error`.
    pub fn invalid(message: impl Into<String>) -> Self {
        ApiError::new(400, ErrorType::InvalidRequest, message)
    }

    /// With a code.
    pub fn code(mut self, code: impl Into<String>) -> Self {
        self.code = Some(code.into());
        self
    }

    /// With the parameter at fault.
    pub fn param(mut self, param: impl Into<String>) -> Self {
        self.param = Some(param.into());
        self
    }

    /// With the PaymentIntent that it is about.
    pub fn payment_intent(mut self, payment_intent: Value) -> Self {
        self.payment_intent = Some(payment_intent);
        self
    }

    /// Nothing had begun: the key stays free.
    pub fn refused(self) -> Failure {
        Failure::Refused(Box::new(self))
    }

    /// Execution had begun: the answer is kept under the key.
    pub fn outcome(self) -> Failure {
        Failure::Outcome(Box::new(self))
    }

    /// The answer's body.
    pub fn body(&self, request_id: &str, now_s: i64) -> Value {
        let mut error = serde_json::Map::new();
        if let Some(charge) = &self.charge {
            error.insert("charge".into(), json!(charge));
        }
        if let Some(code) = &self.code {
            error.insert("code".into(), json!(code));
        }
        if let Some(decline_code) = &self.decline_code {
            error.insert("decline_code".into(), json!(decline_code));
        }
        if let Some(code) = &self.code {
            error.insert("doc_url".into(), json!(doc_url(code)));
        }
        error.insert("message".into(), json!(self.message));
        if let Some(param) = &self.param {
            error.insert("param".into(), json!(param));
        }
        if let Some(payment_intent) = &self.payment_intent {
            error.insert("payment_intent".into(), payment_intent.clone());
        }
        if let Some(payment_method) = &self.payment_method {
            error.insert("payment_method".into(), payment_method.clone());
        }
        error.insert(
            "request_log_url".into(),
            json!(format!("https://dashboard.stripe.com/test/logs/{request_id}?t={now_s}")),
        );
        error.insert("type".into(), json!(<&str>::from(self.kind)));
        json!({ "error": error })
    }
}

/// Where a code is explained.
pub fn doc_url(code: &str) -> String {
    format!("https://stripe.com/docs/error-codes/{}", code.replace('_', "-"))
}

/// Why an operation gave no object.
#[derive(Debug, Clone, PartialEq)]
pub enum Failure {
    /// Refused before it began: not stored, and everything written is undone.
    Refused(Box<ApiError>),
    /// It ran, and this is its result: stored, and everything written stays.
    Outcome(Box<ApiError>),
    /// The simulator is broken: everything written is undone.
    Broken(String),
}

/// Of what the control surface or the clock asked for, the caller learns the status and the message.
impl From<Failure> for failure::Failure {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Refused(error) | Failure::Outcome(error) => {
                failure::Failure { status: error.status, message: error.message }
            }
            Failure::Broken(message) => failure::Failure::broken(message),
        }
    }
}

/// Time refuses nothing: what fails there is broken.
impl From<failure::Failure> for Failure {
    fn from(failure: failure::Failure) -> Self {
        Failure::Broken(failure.message)
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

/// What an operation returns.
pub type Outcome<T> = Result<T, Failure>;

/// `resource_missing`: 404 for the object in the path, 400 for one named by a parameter.
pub fn no_such(kind: Kind, id: &str, status: u16, param: &str) -> ApiError {
    let mut error =
        ApiError::invalid(format!("No such {}: '{id}'", kind.noun())).code("resource_missing").param(param);
    error.status = status;
    error
}

/// 403 for an account that the key is not of, and that is not connected to it.
pub fn no_access() -> Failure {
    let message = "The provided key does not have access to this account (or that account does not exist). Application access may have \
                   been revoked.";
    let mut error = ApiError::invalid(message).code("account_invalid");
    error.status = 403;
    error.refused()
}

/// 403 for what a restricted key may not do.
pub fn forbidden() -> ApiError {
    let message = "The provided key does not have the required permissions for this endpoint.";
    ApiError::new(403, ErrorType::InvalidRequest, message)
}

/// `parameter_missing`.
pub fn missing(param: &str) -> Failure {
    ApiError::invalid(format!("Missing required param: {param}."))
        .code("parameter_missing")
        .param(param)
        .refused()
}

/// `parameter_invalid_integer` for a value below its minimum.
pub fn at_least_one(param: &str) -> ApiError {
    ApiError::invalid("This value must be greater than or equal to 1.")
        .code("parameter_invalid_integer")
        .param(param)
}
