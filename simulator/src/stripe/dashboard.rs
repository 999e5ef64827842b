//! What happens at the provider itself, past the merchant's own system: a payment made elsewhere, what people do on the dashboard, what
//! banks do. A reconciliation has to find all of it.

use serde::Deserialize;
use serde_json::Value;

use crate::failure;
use crate::http::Reply;
use crate::provider::Action;
use crate::provider::Call;
use crate::stripe::errors::{ApiError, Failure, Outcome};
use crate::stripe::kinds::Kind;
use crate::stripe::objects::shown;
use crate::stripe::params::Params;
use crate::stripe::payment_intent::{self, PaymentIntent, Status};
use crate::stripe::{auth, captures, disputes, payment_intents, refunds, refunds_later};

/// What is played at this address below `/_sim/`.
pub fn find<'p>(path: &[&'p str]) -> Option<Action<'p>> {
    match *path {
        ["payments"] => Some(Box::new(move |call, body| play(call, |call| pay(call, body)))),
        ["payments", id, action] => {
            let run = match action {
                "refunds" => refund,
                "captures" => capture,
                "cancel" => cancel,
                "expire" => expire,
                "disputes" => dispute,
                _ => return None,
            };
            Some(Box::new(move |call, body| play(call, |call| run(call, id, body))))
        }
        ["refunds", id, action @ ("ask" | "succeed" | "fail" | "cancel")] => {
            Some(Box::new(move |call, body| play(call, |call| refund_later(call, id, action, body))))
        }
        _ => None,
    }
}

/// Runs what somebody does on the dashboard of the default account. A decline is a result as well: its charge stays.
fn play(call: &mut Call, run: impl FnOnce(&mut Call) -> Outcome<Value>) -> failure::Outcome<Option<Reply>> {
    auth::DEFAULT_ACCOUNT.clone_into(&mut call.account);
    match run(call) {
        Ok(value) => Ok(Some(Reply::json(200, &value))),
        Err(Failure::Outcome(error)) => {
            Ok(Some(Reply::json(error.status, &serde_json::json!({ "error": error.message }))))
        }
        Err(failure) => Err(failure.into()),
    }
}

/// What `POST /_sim/payments` takes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Payment {
    amount: i64,
    #[serde(default = "usd")]
    currency: String,
    #[serde(default = "visa")]
    payment_method: String,
    #[serde(default)]
    capture_method: Option<String>,
    #[serde(default)]
    off_session: bool,
    #[serde(default)]
    account: Option<String>,
}

fn usd() -> String {
    "usd".to_owned()
}

fn visa() -> String {
    "pm_card_visa".to_owned()
}

/// `POST /_sim/payments`: a confirmed PaymentIntent without metadata, which no key of the caller's made.
fn pay(call: &mut Call, body: &Value) -> Outcome<Value> {
    let payment: Payment = read(body)?;
    if let Some(account) = payment.account {
        call.account = account;
    }
    let amount = payment.amount.to_string();
    let mut form = form_urlencoded::Serializer::new(String::new());
    form.append_pair("amount", &amount)
        .append_pair("currency", &payment.currency)
        .append_pair("payment_method", &payment.payment_method)
        .append_pair("payment_method_types[]", "card")
        .append_pair("confirm", "true");
    if payment.off_session {
        form.append_pair("off_session", "true");
    }
    if let Some(capture_method) = &payment.capture_method {
        form.append_pair("capture_method", capture_method);
    }
    payment_intents::create(call, &Params::parse(b"", form.finish().as_bytes())?)
}

/// What `POST /_sim/payments/{id}/refunds` takes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Refund {
    amount: Option<i64>,
}

/// `POST /_sim/payments/{id}/refunds`: gives back an amount, or all that is left, of a PaymentIntent.
fn refund(call: &mut Call, id: &str, body: &Value) -> Outcome<Value> {
    let refund: Refund = read(body)?;
    intent(call, id)?;
    let mut form = form_urlencoded::Serializer::new(String::new());
    form.append_pair("payment_intent", id);
    if let Some(amount) = refund.amount {
        form.append_pair("amount", &amount.to_string());
    }
    refunds::create(call, &Params::parse(b"", form.finish().as_bytes())?)
}

/// `POST /_sim/refunds/{id}/…`: what a bank, the customer or a person on the dashboard does to a refund.
fn refund_later(call: &mut Call, id: &str, action: &str, body: &Value) -> Outcome<Value> {
    let Some(row) = call.store.find(Kind::Refund.into(), id)? else {
        let mut error = ApiError::invalid(format!("No such refund: '{id}'"));
        error.status = 404;
        return Err(error.refused());
    };
    call.account = row.account;
    let refund = serde_json::from_str(&row.body)?;
    call.unasked = action != "cancel";
    if action == "fail" {
        return refunds_later::fail(call, refund, &read(body)?);
    }
    let Nothing {} = read(body)?;
    match action {
        "ask" => refunds_later::ask_customer(call, refund),
        "succeed" => refunds_later::succeed(call, refund),
        _ => refunds_later::cancel(call, refund),
    }
}

/// What `POST /_sim/payments/{id}/captures` takes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Capture {
    amount: Option<i64>,
    #[serde(default = "yes", rename = "final")]
    is_final: bool,
}

const fn yes() -> bool {
    true
}

/// `POST /_sim/payments/{id}/captures`: takes an amount, or all that is reserved; also more than that (an overcapture), and with `"final": false`
/// once of several times.
fn capture(call: &mut Call, id: &str, body: &Value) -> Outcome<Value> {
    let capture: Capture = read(body)?;
    let intent = reserved(call, id)?;
    let amount = capture.amount.unwrap_or(intent.amount_capturable);
    if amount < 1 {
        return Err(invalid("amount must be 1 or more"));
    }
    shown(&captures::take(call, intent, Some(amount), capture.is_final)?)
}

/// `POST /_sim/payments/{id}/cancel`: gives up what is not captured.
fn cancel(call: &mut Call, id: &str, body: &Value) -> Outcome<Value> {
    let Nothing {} = read(body)?;
    intent(call, id)?;
    payment_intents::cancel(call, id, &Params::parse(b"", b"")?)
}

/// `POST /_sim/payments/{id}/expire`: what is reserved lapses now.
fn expire(call: &mut Call, id: &str, body: &Value) -> Outcome<Value> {
    let Nothing {} = read(body)?;
    let intent = reserved(call, id)?;
    call.unasked = true;
    payment_intents::expire(call, intent)?;
    shown(&payment_intent::load(call, id)?)
}

/// `POST /_sim/payments/{id}/disputes`: what the card holder's bank does. See [`disputes`].
fn dispute(call: &mut Call, id: &str, body: &Value) -> Outcome<Value> {
    let action = read(body)?;
    let intent = intent(call, id)?;
    call.unasked = true;
    let charge = intent.latest_charge.filter(|_| intent.amount_received > 0);
    let charge = charge.ok_or_else(|| conflict("Nothing of this payment was taken."))?;
    disputes::act(call, &charge, &action)
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

/// A PaymentIntent of any account, to which the call belongs from now on.
fn intent(call: &mut Call, id: &str) -> Outcome<PaymentIntent> {
    let Some(row) = call.store.find(Kind::PaymentIntent.into(), id)? else {
        let mut error = ApiError::invalid(format!("No such payment: '{id}'"));
        error.status = 404;
        return Err(error.refused());
    };
    call.account = row.account;
    Ok(serde_json::from_str(&row.body)?)
}

fn reserved(call: &mut Call, id: &str) -> Outcome<PaymentIntent> {
    let intent = intent(call, id)?;
    match intent.status {
        Status::RequiresCapture => Ok(intent),
        _ => Err(conflict("Nothing of this payment is reserved.")),
    }
}

fn conflict(message: &str) -> Failure {
    let mut error = ApiError::invalid(message);
    error.status = 409;
    error.refused()
}

fn read<T: serde::de::DeserializeOwned>(body: &Value) -> Outcome<T> {
    serde_json::from_value(body.clone()).map_err(|error| invalid(&error.to_string()))
}

fn invalid(message: &str) -> Failure {
    ApiError::invalid(message).refused()
}
