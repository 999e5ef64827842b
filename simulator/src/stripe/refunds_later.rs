//! What becomes of a refund after it was made. <https://docs.stripe.com/refunds#failed-refunds>
//!
//! ```text
//! succeeded ─its reference is there→ succeeded                          the event that is told most often of a refund
//! pending ─→ succeeded     pending, succeeded ─→ failed                 the money is back, and can be refunded again
//! pending ─→ requires_action     pending, requires_action ─→ canceled
//! ```

use serde::Deserialize;
use serde_json::{Value, json};

use crate::provider::Call;
use crate::store::Query;
use crate::stripe::balance::{self, Movement};
use crate::stripe::cards::Behaviour;
use crate::stripe::charge::{self, Charge};
use crate::stripe::errors::{ApiError, Outcome};
use crate::stripe::events;
use crate::stripe::kinds::Kind;
use crate::stripe::objects::{Objects, shown};
use crate::stripe::payment_methods;
use crate::stripe::refund::Refund;

/// Why a refund waits that the merchant's balance does not cover.
pub const UNFUNDED: &str = "insufficient_funds";

/// How long a refund of `pm_card_pendingRefund` is pending, and after how long one of `pm_card_refundFail` fails.
const SETTLES_AFTER_MS: i64 = 60_000;

/// After how long the reference of a refund is there. At Stripe it can take a week.
const REFERENCED_AFTER_MS: i64 = 5_000;

/// How long the customer has time to answer.
const ASKED_FOR_S: i64 = 45 * 86_400;

/// How a refund begins.
pub struct Beginning {
    /// Why it is pending, if it is.
    pub pending: Option<&'static str>,
    /// When time alone changes it.
    pub changes_after_ms: Option<i64>,
}

/// How a refund to a card begins.
pub fn begins(behaviour: Behaviour) -> Beginning {
    let (pending, changes_after_ms) = match behaviour {
        Behaviour::PendingRefund => (Some("processing"), Some(SETTLES_AFTER_MS)),
        Behaviour::UnfundedRefund => (Some(UNFUNDED), None),
        Behaviour::FailingRefund => (None, Some(SETTLES_AFTER_MS)),
        Behaviour::Approve
        | Behaviour::ApproveAtRisk
        | Behaviour::Decline(_)
        | Behaviour::Authenticate(_)
        | Behaviour::AuthenticateOnSession
        | Behaviour::AuthenticateOnRequest(_)
        | Behaviour::CaptureLater(_)
        | Behaviour::Process(_) => (None, Some(REFERENCED_AFTER_MS)),
    };
    Beginning { pending, changes_after_ms }
}

/// What time does to a refund: a pending one succeeds, one that is bound to fail does, and of any other the reference is there.
pub fn settle(call: &mut Call, refund: Refund) -> Outcome<()> {
    if refund.status == "pending" {
        return succeed(call, refund).map(drop);
    }
    let (_, card) = payment_methods::of_param(call, refund.payment_method.as_deref().unwrap_or_default())?;
    if card.behaviour == Behaviour::FailingRefund {
        return fail(call, refund, &Failing::default()).map(drop);
    }
    let before = refund.clone();
    let mut refund = refund;
    refund.referenced();
    call.save(Kind::Refund, &refund.id, &refund, None)?;
    is_updated(call, &before, &refund)
}

/// `POST /_sim/refunds/{id}/succeed`: a pending one is on its way now; the balance covers it, if it has not.
pub fn succeed(call: &mut Call, mut refund: Refund) -> Outcome<Value> {
    check(&refund, &["pending"], "cannot succeed")?;
    let before = refund.clone();
    refund.succeed();
    if refund.balance_transaction.is_none() {
        let moved = balance::record(call, Movement::Refund, &refund.id, refund.amount, &refund.currency)?;
        refund.balance_transaction = Some(moved);
    }
    call.save(Kind::Refund, &refund.id, &refund, Some(call.now_ms + REFERENCED_AFTER_MS))?;
    is_updated(call, &before, &refund)?;
    shown(&refund)
}

/// What `POST /_sim/refunds/{id}/fail` takes.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failing {
    #[serde(default)]
    reason: Reason,
    #[serde(default)]
    movement: ComesBackBy,
}

/// `failure_reason`.
#[derive(Debug, Clone, Copy, Default, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
#[allow(missing_docs, reason = "each is Stripe's word")]
enum Reason {
    ChargeForPendingRefundDisputed,
    Declined,
    ExpiredOrCanceledCard,
    InsufficientFunds,
    LostOrStolenCard,
    MerchantRequest,
    #[default]
    Unknown,
}

/// The type of the movement by which the money is back: Stripe's documents name both.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ComesBackBy {
    #[default]
    RefundFailure,
    Adjustment,
}

/// `POST /_sim/refunds/{id}/fail`: a bank has not taken it, or it was never sent.
pub fn fail(call: &mut Call, refund: Refund, failing: &Failing) -> Outcome<Value> {
    check(&refund, &["pending", "succeeded", "requires_action"], "cannot fail")?;
    ends(call, refund, "failed", failing)
}

/// Those that are pending when the charge is disputed fail: the bank gives that money back.
pub fn disputed(call: &mut Call, charge: &str) -> Outcome<()> {
    let query = Query { labels: vec![charge.to_owned()], ..Query::all(Kind::Refund) };
    for row in call.list(query)? {
        let refund: Refund = serde_json::from_str(&row.body)?;
        if refund.status == "pending" {
            let reason = Reason::ChargeForPendingRefundDisputed;
            fail(call, refund, &Failing { reason, ..Failing::default() })?;
        }
    }
    Ok(())
}

/// The merchant does not want it any more: by the API only in `requires_action`, by a person on the dashboard also while it is pending.
pub fn cancel(call: &mut Call, refund: Refund) -> Outcome<Value> {
    check(&refund, &["pending", "requires_action"], "cannot be canceled")?;
    ends(call, refund, "canceled", &Failing { reason: Reason::MerchantRequest, ..Failing::default() })
}

/// It gives nothing back: what had left the merchant's balance is in it again, and can be refunded again.
fn ends(call: &mut Call, mut refund: Refund, status: &str, failing: &Failing) -> Outcome<Value> {
    let before = refund.clone();
    refund.status = status.to_owned();
    refund.next_action = None;
    refund.pending_reason = None;
    refund.failure_reason = Some(<&str>::from(failing.reason).to_owned());
    if refund.balance_transaction.is_some() {
        let movement = match failing.movement {
            ComesBackBy::RefundFailure => Movement::RefundFailure,
            ComesBackBy::Adjustment => Movement::RefundFailureAdjustment,
        };
        let back = balance::record(call, movement, &refund.id, refund.amount, &refund.currency)?;
        refund.failure_balance_transaction = Some(back);
    }
    let mut charge: Charge = call.of_param(Kind::Charge, &refund.charge, "charge")?;
    charge.amount_refunded -= refund.amount;
    charge.refunded = false;
    charge::save(call, &charge)?;
    call.save(Kind::Refund, &refund.id, &refund, None)?;
    if status == "failed" {
        events::record(call, "refund.failed", &refund)?;
    }
    is_updated(call, &before, &refund)?;
    shown(&refund)
}

/// `POST /_sim/refunds/{id}/ask`: it waits for the customer, who has not said to which account the money goes. At Stripe only other
/// methods than cards have it.
pub fn ask_customer(call: &mut Call, mut refund: Refund) -> Outcome<Value> {
    check(&refund, &["pending"], "asks nobody")?;
    let before = refund.clone();
    refund.status = "requires_action".to_owned();
    refund.pending_reason = None;
    refund.next_action = Some(json!({
        "display_details": {
            "email_sent": { "email_sent_at": call.now_s(), "email_sent_to": "customer@example.com" },
            "expires_at": call.now_s() + ASKED_FOR_S,
        },
        "type": "display_details",
    }));
    call.save(Kind::Refund, &refund.id, &refund, None)?;
    is_updated(call, &before, &refund)?;
    shown(&refund)
}

fn check(refund: &Refund, statuses: &[&str], otherwise: &str) -> Outcome<()> {
    if statuses.contains(&refund.status.as_str()) && !refund.is_release() {
        return Ok(());
    }
    Err(ApiError::invalid(format!("A refund with a status of {} {otherwise}.", refund.status)).refused())
}

/// Tells of a change of a refund.
pub fn is_updated(call: &mut Call, before: &Refund, refund: &Refund) -> Outcome<()> {
    events::record_change(call, "refund.updated", before, refund)?;
    events::record_change(call, "charge.refund.updated", before, refund)
}
