//! The email about money that has moved: staged in the phase that knows of it, sent once by its id.

use serde::{Deserialize, Serialize};

use crate::engine::{Context, ObjectState};
use crate::payment::Payment;
use crate::payment::card::Card;
use crate::payment::id::reference;
use crate::payment::money::Currency;
use crate::payment::receipt_content::ReceiptContent;
use crate::payment::records::JobKind;
use crate::payment::refund::Refund;
use once::id::Owner;
use once::outbox::job;

/// What an email is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum About {
    /// Money was taken.
    Paid,
    /// Money was given back.
    Refunded,
    /// Nothing was taken, and nothing will be.
    Voided,
}

/// What an email is made from.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Receipt {
    /// What it is about.
    pub about: About,
    /// To whom it goes.
    pub to: String,
    /// The payment or refund.
    pub resource: String,
    /// How much, in minor units.
    pub amount_minor: u64,
    /// In which currency.
    pub currency: Currency,
    /// The merchant's order.
    pub order_id: Option<String>,
    /// When the money moved, in ms since the epoch.
    pub at_ms: u64,
    /// What people call the payment by; empty in a job of an older release.
    #[serde(default)]
    pub reference: String,
    /// The provider's id of the payment, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_payment: Option<String>,
    /// The account that sells; none in a job of an older release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// The card that paid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub card: Option<Card>,
    /// The language in which the customer paid, and what was bought, if the amount is what that costs.
    #[serde(flatten)]
    pub content: ReceiptContent,
}

/// Of a payment that was captured, or called off.
pub(crate) fn of_payment(state: &mut ObjectState, payment: &Payment, about: About, ctx: &Context) {
    let (job_id, amount_minor) = match about {
        // An order can be tried, and called off, more than once.
        About::Voided => (format!("{}_void_{}_receipt", payment.id, payment.attempt), payment.amount.get()),
        // One that had failed for good may have been captured, and told of, before.
        _ if payment.attempt > 1 => {
            (format!("{}_receipt_{}", payment.id, payment.attempt), payment.captured_minor())
        }
        _ => (format!("{}_receipt", payment.id), payment.captured_minor()),
    };
    let mut content = payment.receipt_content.clone();
    if about != About::Paid || amount_minor != payment.amount.get() {
        content.lines.clear();
    }
    let to = payment.receipt_email.as_ref();
    let account = seller(state);
    stage(state, job_id, ctx, to, |to| Receipt {
        about,
        to,
        resource: payment.id.to_string(),
        amount_minor,
        currency: payment.currency,
        order_id: payment.order_id.clone(),
        at_ms: ctx.now_ms,
        reference: reference(payment.id),
        provider_payment: payment.provider_payment.clone(),
        account,
        card: payment.card,
        content,
    });
}

/// Of a refund that has succeeded.
pub(crate) fn of_refund(state: &mut ObjectState, refund: &Refund, ctx: &Context) {
    let Some(payment) = state.resource.payment.clone() else { return };
    let account = seller(state);
    stage(state, format!("{}_receipt", refund.id), ctx, payment.receipt_email.as_ref(), |to| Receipt {
        about: About::Refunded,
        to,
        resource: refund.id.to_string(),
        amount_minor: refund.amount.get(),
        currency: payment.currency,
        order_id: payment.order_id.clone(),
        at_ms: ctx.now_ms,
        reference: reference(payment.id),
        provider_payment: payment.provider_payment.clone(),
        account,
        card: payment.card,
        content: ReceiptContent { lines: Vec::new(), ..payment.receipt_content.clone() },
    });
}

/// The account whose payment it is.
fn seller(state: &ObjectState) -> Option<String> {
    match &state.keys.first()?.owner {
        Owner::Account(account) => Some(account.clone()),
        Owner::Session(_) => None,
    }
}

fn stage(
    state: &mut ObjectState,
    job_id: String,
    ctx: &Context,
    to: Option<&String>,
    receipt: impl FnOnce(String) -> Receipt,
) {
    if let Some(to) = to {
        let payload = serde_json::to_value(receipt(to.clone())).unwrap_or_default();
        state.appended.jobs.push(job(JobKind::SendReceipt, job_id, payload, ctx));
    }
}
