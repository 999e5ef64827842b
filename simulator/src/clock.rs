//! The simulator's clock: the wall clock plus an offset that tests move, and what time alone changes.
//!
//! Nothing runs in the background. Whatever fell due is settled at the start of the next request, oldest first, so a moved clock shows its
//! effects at once: keys older than 24 hours (at Adyen 7 days) are forgotten, authorisations older than 7 days lapse, refunds settle, banks decide.

use serde_json::{Value, json};

use crate::adyen;
use crate::attempt;
use crate::call::Call;
use crate::errors::Outcome;
use crate::http::Reply;
use crate::idempotency;
use crate::payment_intents::{self, PaymentIntent, Status};
use crate::refunds;
use crate::store::{Kind, Store, Stored};

/// A test never needs to go further: ten years.
const MAX_OFFSET_MS: i64 = 10 * 366 * 24 * 60 * 60 * 1000;

/// Does what has fallen due.
pub fn settle(call: &mut Call) -> Outcome<()> {
    idempotency::prune(call.store, call.now_ms)?;
    for row in call.store.due(call.now_ms)? {
        match row.kind {
            Kind::PaymentIntent => {
                let intent: PaymentIntent = serde_json::from_str(&row.body)?;
                if intent.status == Status::Processing {
                    attempt::decided(call, intent)?;
                } else {
                    payment_intents::close(call, intent, Some("automatic"), "charge.expired")?;
                }
            }
            Kind::Refund => refunds::settle(call, serde_json::from_str(&row.body)?)?,
            Kind::AdyenPayment => adyen::payments::settle(call, serde_json::from_str(&row.body)?)?,
            Kind::Charge
            | Kind::Customer
            | Kind::PaymentMethod
            | Kind::Event
            | Kind::AdyenModification
            | Kind::AdyenNotification => {}
        }
    }
    Ok(())
}

/// `GET /_sim/clock`
pub fn show(now_ms: i64, offset_ms: i64) -> Reply {
    Reply::json(200, &json!({ "now_ms": now_ms, "offset_ms": offset_ms }))
}

/// `POST /_sim/clock` with `{"advance_ms": n}`: forwards only, as time goes.
pub fn advance(store: &mut dyn Store, wall_ms: i64, body: &Value) -> Stored<Reply> {
    let offset_ms = store.clock_offset_ms()?;
    let advanced = body
        .get("advance_ms")
        .and_then(Value::as_i64)
        .filter(|ms| *ms >= 0)
        .and_then(|ms| offset_ms.checked_add(ms));
    match advanced.filter(|offset| *offset <= MAX_OFFSET_MS) {
        Some(offset_ms) => {
            store.set_clock_offset_ms(offset_ms)?;
            Ok(show(wall_ms + offset_ms, offset_ms))
        }
        None => Ok(Reply::json(
            400,
            &json!({ "error": "advance_ms must be a whole number, 0 or more, and at most ten years in all" }),
        )),
    }
}
