//! Asking Stripe how a payment, its refunds and its disputes stand.

use super::answers::{found, minor, refund_state};
use super::look_up::read_proof;
use super::objects::{BalanceMovement, DisputeObject, List, PAGE_SIZE, PaymentIntent, RefundObject};
use super::requests::encode;
use crate::payment::money::Currency;
use crate::payment::status_query::{Beside, RemoteRefund, StatusQuery, StatusReply};
use crate::payment::{Dispute, DisputeStatus, RefundState};
use crate::providers::codec::HttpAnswer;
use once::call::FrozenRequest;
use serde::Deserialize as _;
use serde_json::Value;

/// What to ask about a payment or a refund that is not decided.
pub fn question(question: &StatusQuery) -> FrozenRequest {
    let path = match question {
        StatusQuery::Payment { id, .. } => {
            format!("/v1/payment_intents/{id}?{}", encode(&[("expand[]", "latest_charge")]))
        }
        StatusQuery::Disputes { id, .. } => {
            let limit = PAGE_SIZE.to_string();
            format!("/v1/disputes?{}", encode(&[("payment_intent", id.as_str()), ("limit", &limit)]))
        }
        StatusQuery::Refund { id, .. } => format!("/v1/refunds/{id}"),
        StatusQuery::Home { payment, .. } => format!("/v1/payment_intents/{payment}"),
        StatusQuery::Refunds { id, read, .. } => {
            let limit = PAGE_SIZE.to_string();
            let mut fields = vec![("payment_intent", id.as_str()), ("limit", &limit)];
            fields.extend(read.last().map(|last| ("starting_after", last.id.as_str())));
            format!("/v1/refunds?{}", encode(&fields))
        }
    };
    FrozenRequest::new(path, String::new()).for_account(question.account())
}

/// What the answer to a question says.
pub fn read_status_reply(question: &StatusQuery, answer: &HttpAnswer) -> StatusReply {
    if let StatusQuery::Home { payment, .. } = question {
        return StatusReply::Home(read_proof(Some(payment), answer));
    }
    if answer.status != 200 {
        return StatusReply::NoAnswer;
    }
    let status_reply = match question {
        StatusQuery::Home { .. } => None,
        // What is of another object is no answer.
        StatusQuery::Payment { id, .. } => json_text::from_str::<PaymentIntent>(&answer.body)
            .ok()
            .filter(|intent| intent.id == *id)
            .and_then(|intent| Some(StatusReply::Payment(found(&intent)?, beside(&intent)?))),
        StatusQuery::Disputes { id, .. } => json_text::from_str(&answer.body)
            .ok()
            .and_then(|list| {
                of_payment(list, id, |dispute: &DisputeObject| dispute.payment_intent.as_deref())
            })
            .and_then(disputes),
        StatusQuery::Refund { id, .. } => json_text::from_str::<RefundObject>(&answer.body)
            .ok()
            .filter(|refund| refund.id == *id)
            .and_then(|refund| refund_state(&refund))
            .map(StatusReply::Refund),
        StatusQuery::Refunds { id, .. } => json_text::from_str(&answer.body)
            .ok()
            .and_then(|list| of_payment(list, id, |refund: &RefundObject| refund.payment_intent.as_deref()))
            .and_then(remote_refunds),
    };
    status_reply.unwrap_or(StatusReply::NoAnswer)
}

/// Of a list what is of this payment, or does not say of which. Of one that goes on nothing, if it has others: its next page begins after one of them.
fn of_payment<T>(mut list: List<T>, id: &str, of: impl Fn(&T) -> Option<&str>) -> Option<List<T>> {
    let all = list.data.len();
    list.data.retain(|entry| of(entry).is_none_or(|of| of == id));
    (list.data.len() == all || !list.has_more()).then_some(list)
}

/// `None` if it is in a currency that is none of ours: nothing is asked for in such a one.
fn beside(intent: &PaymentIntent) -> Option<Beside> {
    let currency = match &intent.currency {
        Some(currency) => Some(Currency::parse(currency)?),
        None => None,
    };
    let is_in_parts = intent.status == "requires_capture" && minor(intent.amount_received) > 0;
    Some(Beside {
        capture_before_ms: intent.capture_before_ms(),
        held_minor: if is_in_parts { minor(intent.amount_capturable) } else { 0 },
        is_disputed: intent.charge().disputed,
        card: intent.card(),
        amount_minor: intent.amount,
        currency,
    })
}

/// Disputes of a payment. `None` if one of them cannot be understood: then nothing follows from the others.
fn disputes(list: List<DisputeObject>) -> Option<StatusReply> {
    let disputes: Option<Vec<Dispute>> = list.data.into_iter().map(dispute).collect();
    Some(StatusReply::Disputes(disputes?))
}

/// An inquiry that ends without a withdrawal is won.
pub fn dispute_status(status: &str) -> DisputeStatus {
    match status {
        "won" | "warning_closed" | "prevented" => DisputeStatus::Won,
        "lost" => DisputeStatus::Lost,
        _ => DisputeStatus::Open,
    }
}

/// A dispute, as Stripe's object of it says. `None` if it cannot be understood.
pub fn read_dispute(object: &Value) -> Option<Dispute> {
    DisputeObject::deserialize(object).ok().and_then(dispute)
}

/// Of one that is lost a part can have come back ("partially won"): its amount is then what did not.
/// <https://support.stripe.com/questions/dispute-for-full-charge-amount-after-a-partial-refund-was-issued>
fn dispute(object: DisputeObject) -> Option<Dispute> {
    let amount_minor = object.amount;
    let withdrawn_minor = withdrawn_minor(amount_minor, &object.balance_transactions)?;
    let status = match object.status.as_str() {
        // Resolved by giving the money back: <https://docs.stripe.com/disputes/prevention>
        "prevented" if withdrawn_minor > 0 => DisputeStatus::Lost,
        status => dispute_status(status),
    };
    // What is won came back, at the rate of another day: that may be less than was withdrawn.
    let withdrawn = withdrawn_minor > 0 && status != DisputeStatus::Won;
    // Of a chargeback, too, a charge can be called refundable: then the bank may give the same back once more.
    // <https://docs.stripe.com/disputes/how-disputes-work#inquiries>
    let is_inquiry = object.status.starts_with("warning_");
    Some(Dispute {
        id: object.id,
        amount_minor: if withdrawn { withdrawn_minor } else { amount_minor },
        status,
        withdrawn,
        refundable: object.is_charge_refundable && is_inquiry && !withdrawn,
        at_ms: None,
        began_as_inquiry: false,
        undefended_at_ms: None,
    })
}

/// How much of a dispute's amount was withdrawn and did not come back. Movements are in the currency of settlement: the share of what left counts, which
/// is exact where nothing was exchanged. <https://docs.stripe.com/currencies/disputes-refunds>
fn withdrawn_minor(amount_minor: u64, movements: &[BalanceMovement]) -> Option<u64> {
    let sum = |is_withdrawal: bool| {
        let those = movements.iter().filter(|moved| (moved.amount < 0) == is_withdrawal);
        those.fold(0_u128, |sum, moved| sum.saturating_add(moved.amount.unsigned_abs().into()))
    };
    let withdrawn = sum(true);
    let left = withdrawn.saturating_sub(sum(false)).saturating_mul(amount_minor.into());
    u64::try_from(left.saturating_add(withdrawn / 2).checked_div(withdrawn).unwrap_or(0)).ok()
}

/// Refunds of a payment, by whomever. `None` if one of them cannot be understood: then nothing follows from the others.
fn remote_refunds(list: List<RefundObject>) -> Option<StatusReply> {
    let has_more = list.has_more();
    let refunds: Option<Vec<RemoteRefund>> = list.data.into_iter().map(remote_refund).collect();
    Some(StatusReply::Refunds { refunds: refunds?, has_more })
}

fn remote_refund(refund: RefundObject) -> Option<RemoteRefund> {
    // What is on its way in a way that is not known can still come to anything.
    let state = refund_state(&refund).unwrap_or(RefundState::Pending);
    let card = refund.destination_details.and_then(|details| details.card);
    Some(RemoteRefund {
        state,
        amount_minor: refund.amount?,
        provider_key: refund.metadata.idempotency_key,
        // Stripe calls it so when the bank had only reserved the money, or had not booked it yet.
        may_be_release: card.and_then(|card| card.kind).as_deref() == Some("reversal"),
        id: refund.id,
    })
}
