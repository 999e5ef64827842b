//! What befalls a payment at Adyen without a request of the merchant's: a person in the Customer Area, a bank, a scheme, time.
//!
//! `POST /_sim/adyen/payments/{pspReference}/{action}` plays one, and its webhook says so. Several say no by their name, although their
//! `success` is "true": <https://docs.adyen.com/development-resources/webhooks/webhook-types>

use serde::Deserialize;
use serde_json::{Value, json};

use crate::adyen::kinds::Kind;
use crate::adyen::modification::{Modification, ModificationKind, ModificationRequest};
use crate::adyen::notifications::{self, Event};
use crate::adyen::payment::{self, Payment, PaymentStatus};
use crate::adyen::{companies, modifications, payments, reports};
use crate::failure::{Failure, Outcome};
use crate::http::Reply;
use crate::ids;
use crate::provider::{Action, Call};
use crate::store::Query;

/// What is played at this address below `/_sim/`.
pub fn find<'p>(path: &[&'p str]) -> Option<Action<'p>> {
    let shown = |value: Value| Some(Reply::json(200, &value));
    match *path {
        ["payments", id, "refunds"] => {
            Some(Box::new(move |call, body| Ok(refund(call, id, body)?.and_then(shown))))
        }
        ["adyen", "payments", psp, action] => {
            Some(Box::new(move |call, body| Ok(shown(play(call, psp, action, body)?))))
        }
        ["adyen", "webhook"] => {
            Some(Box::new(move |call, body| Ok(shown(companies::set_webhook(call, body)?))))
        }
        ["adyen", "reports"] => Some(Box::new(move |call, body| Ok(shown(reports::close(call, body)?)))),
        _ => None,
    }
}

/// `POST /_sim/payments/{id}/refunds`, of a payment at Adyen. `None`: it is none.
fn refund(call: &mut Call, id: &str, body: &Value) -> Outcome<Option<Value>> {
    let Some(payment) = payment::find(call, id)? else {
        return Ok(None);
    };
    let Options { amount } =
        serde_json::from_value(body.clone()).map_err(|error| refuse(400, error.to_string()))?;
    by_a_person(call, &payment, ModificationKind::Refund, amount).map(Some)
}

/// What `POST /_sim/adyen/payments/{pspReference}/{action}` takes.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Options {
    /// In Adyen's minor unit: of a capture, a refund or a chargeback. Without it, all that is left.
    amount: Option<i64>,
}

/// Every action, for the message to who asks for another one.
const KNOWN: &str = "capture, cancel, refund, capture-failed, recaptured, refund-failed, refund-repeated, refund-reversed, expire, \
                     authorised, and of a dispute: ";

/// What befalls a dispute: the action, its `eventCode`, and whether the money is the bank's after it, where that changes.
/// <https://docs.adyen.com/risk-management/disputes-api/dispute-notifications>
const OF_DISPUTES: &[(&str, &str, Option<bool>)] = &[
    ("request-for-information", "REQUEST_FOR_INFORMATION", None),
    ("notification-of-chargeback", "NOTIFICATION_OF_CHARGEBACK", None),
    ("chargeback", "CHARGEBACK", Some(true)),
    ("chargeback-reversed", "CHARGEBACK_REVERSED", Some(false)),
    ("second-chargeback", "SECOND_CHARGEBACK", Some(true)),
    ("prearbitration-open", "PREARBITRATION_OPEN", None),
    ("prearbitration-issuer-withdrawn", "PREARBITRATION_ISSUER_WITHDRAWN", Some(false)),
    ("prearbitration-accepted", "PREARBITRATION_ACCEPTED", Some(true)),
    ("prearbitration-declined", "PREARBITRATION_DECLINED", None),
    ("dispute-defense-period-ended", "DISPUTE_DEFENSE_PERIOD_ENDED", None),
    ("issuer-response-timeframe-expired", "ISSUER_RESPONSE_TIMEFRAME_EXPIRED", None),
    ("scheme-arbitration", "SCHEME_ARBITRATION", None),
    ("scheme-arbitration-won", "SCHEME_ARBITRATION_WON", Some(false)),
    ("scheme-arbitration-lost", "SCHEME_ARBITRATION_LOST", Some(true)),
    ("prearbitration-won", "PREARBITRATION_WON", Some(false)),
    ("prearbitration-lost", "PREARBITRATION_LOST", Some(true)),
];

/// Plays an action; gives what is known of the payment after it.
fn play(call: &mut Call, psp_reference: &str, action: &str, body: &Value) -> Outcome<Value> {
    let Some(payment) = payment::find(call, psp_reference)? else {
        return Err(refuse(404, format!("No such payment at Adyen: '{psp_reference}'")));
    };
    let Options { amount } = serde_json::from_value(body.clone())
        .map_err(|error| refuse(400, format!("the body is not understood: {error}")))?;
    match action {
        "capture" => return by_a_person(call, &payment, ModificationKind::Capture, amount),
        "cancel" => return by_a_person(call, &payment, ModificationKind::Cancel, None),
        "refund" => return by_a_person(call, &payment, ModificationKind::Refund, amount),
        "capture-failed" => capture_failed(call, payment)?,
        "recaptured" => recaptured(call, payment)?,
        "refund-failed" => refund_undone(call, payment, "REFUND_FAILED")?,
        "refund-repeated" => refund_repeated(call, payment)?,
        "refund-reversed" => refund_undone(call, payment, "REFUNDED_REVERSED")?,
        "expire" => expire(call, payment)?,
        "authorised" => authorised(call, payment)?,
        _ => {
            let Some((_, code, is_taken)) = OF_DISPUTES.iter().find(|(name, ..)| *name == action) else {
                let of_disputes: Vec<&str> = OF_DISPUTES.iter().map(|(name, ..)| *name).collect();
                let known = format!("{KNOWN}{}", of_disputes.join(", "));
                return Err(refuse(404, format!("Nothing like that happens here. There are {known}.")));
            };
            disputed(call, payment, code, *is_taken, amount)?;
        }
    }
    let payment = payment::find(call, psp_reference)?;
    Ok(json!({ "payment": payment }))
}

/// What somebody does in the Customer Area: no key, and no reference of its own.
fn by_a_person(
    call: &mut Call,
    payment: &Payment,
    kind: ModificationKind,
    amount: Option<i64>,
) -> Outcome<Value> {
    let left = match kind {
        ModificationKind::Refund => payment.amount_captured - payment.amount_refunded,
        ModificationKind::Capture | ModificationKind::Cancel | ModificationKind::Reversal => {
            payment.amount.value
        }
    };
    let mut body = json!({ "merchantAccount": payment.merchant_account });
    if !matches!(kind, ModificationKind::Cancel | ModificationKind::Reversal)
        && let Some(fields) = body.as_object_mut()
    {
        let value = amount.unwrap_or(left);
        fields.insert("amount".into(), json!({ "currency": payment.amount.currency, "value": value }));
    }
    let request = ModificationRequest::parse(kind, &body)
        .map_err(|failure| refuse(400, Failure::from(failure).message))?;
    // A modification has the id of the request that asks for it.
    let id = ids::word(call.ids, 16).to_ascii_uppercase();
    let mut call = call.as_request(String::new(), &id, None);
    Ok(modifications::create(&mut call, &payment.psp_reference, kind, &request)?)
}

/// The scheme takes a capture back that had succeeded.
fn capture_failed(call: &mut Call, mut payment: Payment) -> Outcome<()> {
    let mut capture = last(call, &payment, ModificationKind::Capture, |capture| capture.failure.is_none())?;
    payment.amount_captured -= capture.amount.value;
    capture.failure = Some("Capture Failed".to_owned());
    notify(call, &payment, &capture, "CAPTURE_FAILED", "Capture Failed")?;
    save(call, &payment, &capture)
}

/// Adyen makes a capture again by itself that had failed for a technical reason: the same event and reference as at first.
fn recaptured(call: &mut Call, mut payment: Payment) -> Outcome<()> {
    let mut capture = last(call, &payment, ModificationKind::Capture, |capture| capture.failure.is_some())?;
    payment.amount_captured += capture.amount.value;
    capture.failure = None;
    notify(call, &payment, &capture, "CAPTURE", "Transaction Recaptured")?;
    save(call, &payment, &capture)
}

/// A refund that had succeeded comes back.
fn refund_undone(call: &mut Call, mut payment: Payment, code: &'static str) -> Outcome<()> {
    let mut refund = last(call, &payment, ModificationKind::Refund, |refund| refund.failure.is_none())?;
    payment.amount_refunded -= refund.amount.value;
    refund.failure = Some("Refund Failed".to_owned());
    notify(call, &payment, &refund, code, "Refund Failed")?;
    save(call, &payment, &refund)
}

/// Adyen makes a refund again by itself that had failed for a technical reason, as it does with a capture, whatever was given back meanwhile.
fn refund_repeated(call: &mut Call, mut payment: Payment) -> Outcome<()> {
    let mut refund = last(call, &payment, ModificationKind::Refund, |refund| refund.failure.is_some())?;
    payment.amount_refunded += refund.amount.value;
    refund.failure = None;
    notify(call, &payment, &refund, "REFUND", "Transaction Refunded")?;
    save(call, &payment, &refund)
}

/// The reservation lapses now.
fn expire(call: &mut Call, mut payment: Payment) -> Outcome<()> {
    if payment.status != PaymentStatus::Authorised || payment.amount_captured > 0 {
        return Err(refuse(409, "Nothing of this payment is reserved.".to_owned()));
    }
    payment.status = PaymentStatus::Expired;
    payment.due_ms = None;
    Ok(payments::expired(call, &payment)?)
}

/// The issuer holds the money after all, although the answer was `Error` or a refusal.
fn authorised(call: &mut Call, payment: Payment) -> Outcome<()> {
    if payment.authorised {
        return Err(refuse(409, "This payment is authorised already.".to_owned()));
    }
    Ok(payments::authorised_late(call, payment)?)
}

/// A card holder's bank disputes a payment. All events of one dispute have one `pspReference`, but the second chargeback, which has the payment's.
fn disputed(
    call: &mut Call,
    mut payment: Payment,
    code: &'static str,
    is_taken: Option<bool>,
    amount: Option<i64>,
) -> Outcome<()> {
    let left = payment.amount_captured - payment.amount_refunded;
    let value = amount.unwrap_or(payment.dispute.as_ref().map_or(left, |(_, value)| *value));
    if value < 1 || value > payment.amount_captured {
        return Err(refuse(409, "There is no such amount to be charged back.".to_owned()));
    }
    let id = match &payment.dispute {
        Some((id, _)) => id.clone(),
        None => ids::word(call.ids, 16).to_ascii_uppercase(),
    };
    payment.dispute = Some((id.clone(), value));
    let amount = payment.amount.of(value);
    if let Some(is_taken) = is_taken {
        payment.amount_charged_back = if is_taken { value } else { 0 };
    }
    payment::save(call, &payment)?;
    let event = Event {
        code,
        // It can be the payment's that is said.
        modification: Some(id.as_str()).filter(|_| code != "SECOND_CHARGEBACK"),
        reference: None,
        amount: Some(&amount),
        failure: None,
        reason: Some("Fraudulent"),
        action: None,
    };
    Ok(notifications::record(call, &payment, &event)?)
}

/// The newest modification of a kind.
fn last(
    call: &Call,
    payment: &Payment,
    kind: ModificationKind,
    wanted: impl Fn(&Modification) -> bool,
) -> Outcome<Modification> {
    let query = Query {
        parent: Some(payment.psp_reference.clone()),
        labels: vec![kind.to_string()],
        ..Query::all(Kind::Modification)
    };
    for row in call.store.list(&query)? {
        let modification: Modification = serde_json::from_str(&row.body)?;
        if wanted(&modification) {
            return Ok(modification);
        }
    }
    Err(refuse(409, format!("This payment has no such {} to be changed.", kind)))
}

fn save(call: &mut Call, payment: &Payment, modification: &Modification) -> Outcome<()> {
    payment::save(call, payment)?;
    Ok(call.save(Kind::Modification, &modification.psp_reference, modification, None)?)
}

/// Tells of a modification with `success` "true", whatever the name says.
fn notify(
    call: &mut Call,
    payment: &Payment,
    modification: &Modification,
    code: &'static str,
    reason: &str,
) -> Outcome<()> {
    let event = Event {
        code,
        modification: Some(&modification.psp_reference),
        reference: modification.reference.as_deref(),
        amount: Some(&modification.amount),
        failure: None,
        reason: Some(reason),
        action: None,
    };
    Ok(notifications::record(call, payment, &event)?)
}

fn refuse(status: u16, message: String) -> Failure {
    Failure { status, message }
}
