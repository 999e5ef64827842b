//! The control of every experiment: a shop without protection. **Never a model, and never in production.**
//!
//! It does what many integrations do at first: whoever presses Pay is charged, by one call to the bank without an
//! `Idempotency-Key`, and nothing is written down before. Whoever asks again is charged again.

use serde::Deserialize;

use super::bank;
use super::ledger::Side;
use super::{ClientOutcome, ExperimentId, Order, PRICE_MINOR};
use crate::app::App;
use web::http::Request;

/// One press of Pay, as far as the shop knows it.
pub(super) struct Press<'a> {
    pub(super) experiment: &'a ExperimentId,
    pub(super) order: &'a Order,
    /// Its id: only the lab has one, to count the presses afterwards.
    pub(super) id: String,
}

/// One request to pay: one call to the bank.
pub(super) async fn pay(app: &App, request: &Request, press: &Press<'_>) -> ClientOutcome {
    #[derive(Deserialize)]
    struct Intent {
        status: String,
    }
    let Press { experiment, order, id } = press;
    let (lab, amount) = (experiment.to_string(), PRICE_MINOR.to_string());
    let return_url = super::page::back(&request.origin(), experiment, order.fault);
    let fields = [
        ("amount", amount.as_str()),
        ("currency", "usd"),
        ("payment_method", order.fault.card()),
        ("payment_method_types[0]", "card"),
        ("confirm", "true"),
        ("return_url", &return_url),
        ("metadata[lab]", &lab),
        ("metadata[side]", Side::Unprotected.as_str()),
        ("metadata[press]", id),
    ];
    let body = serde_urlencoded::to_string(fields).unwrap_or_default();
    let asked =
        bank::send(app, "/v1/payment_intents", Some(("application/x-www-form-urlencoded", &body))).await;
    match asked {
        Err(_) => ClientOutcome::NoAnswer,
        Ok(reply) if reply.status == 402 => ClientOutcome::Declined,
        Ok(reply) => match serde_json::from_str::<Intent>(&reply.body) {
            Ok(Intent { status }) if status == "succeeded" => ClientOutcome::Paid,
            Ok(Intent { status }) if status == "requires_action" => ClientOutcome::BankPage,
            _ => ClientOutcome::Failed,
        },
    }
}
