//! What people do at the provider itself, past the merchant's own system: a payment made elsewhere, a refund on the dashboard. A
//! reconciliation has to find both.

use serde::Deserialize;
use serde_json::Value;

use crate::adyen::modifications::ModificationKind;
use crate::adyen::{happenings, payments};
use crate::call::Call;
use crate::errors::{ApiError, Failure, Outcome};
use crate::params::Params;
use crate::store::Kind;
use crate::{payment_intents, refunds};

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
    account: Option<String>,
}

fn usd() -> String {
    "usd".to_owned()
}

fn visa() -> String {
    "pm_card_visa".to_owned()
}

/// `POST /_sim/payments`: a confirmed PaymentIntent without metadata, which no key of the caller's made.
pub fn pay(call: &mut Call, body: &Value) -> Outcome<Value> {
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

/// `POST /_sim/payments/{id}/refunds`: gives back an amount, or all that is left, of a PaymentIntent or of Adyen's payment.
pub fn refund(call: &mut Call, id: &str, body: &Value) -> Outcome<Value> {
    let refund: Refund = read(body)?;
    if let Some(payment) = payments::find(call, id)? {
        return happenings::by_a_person(call, &payment, ModificationKind::Refund, refund.amount);
    }
    let Some(intent) = call.store.find(Kind::PaymentIntent, id)? else {
        let mut error = ApiError::invalid(format!("No such payment: '{id}'"));
        error.status = 404;
        return Err(error.refused());
    };
    call.account = intent.account;
    let mut form = form_urlencoded::Serializer::new(String::new());
    form.append_pair("payment_intent", id);
    if let Some(amount) = refund.amount {
        form.append_pair("amount", &amount.to_string());
    }
    refunds::create(call, &Params::parse(b"", form.finish().as_bytes())?)
}

fn read<T: serde::de::DeserializeOwned>(body: &Value) -> Outcome<T> {
    serde_json::from_value(body.clone()).map_err(|error| invalid(&error.to_string()))
}

fn invalid(message: &str) -> Failure {
    ApiError::invalid(message).refused()
}
