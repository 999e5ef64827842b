//! Charges: each attempt of a PaymentIntent makes one, declined ones too. <https://docs.stripe.com/api/charges>
//!
//! They cannot be made directly; they follow from PaymentIntents. Rows of this kind are the ledger: no code ever deletes one.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::balance::{self, ASYNC_CAPTURE_MS, Movement};
use crate::call::{Call, Links, shown};
use crate::cards::Decline;
use crate::errors::Outcome;
use crate::events;
use crate::lists::{self, Page};
use crate::metadata::{self, Metadata};
use crate::params::Params;
use crate::payment_intents::{PaymentIntent, Status, set};
use crate::payment_methods::{PaymentMethod, no_billing_details};
use crate::refunds;
use crate::store::{Kind, Query};
use crate::stripe;

/// How long a bank holds what is reserved: where the card holder was not there, Visa's do it for 4 days and 18 hours.
const HELD_S: i64 = 7 * DAY_S;
const VISA_OFF_SESSION_S: i64 = 4 * DAY_S + 18 * 60 * 60;
const DAY_S: i64 = 24 * 60 * 60;

/// A charge.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Charge {
    /// `ch_…`
    pub id: String,
    object: String,
    /// What was asked for, in the smallest unit.
    pub amount: i64,
    /// What was taken.
    pub amount_captured: i64,
    /// What was given back.
    pub amount_refunded: i64,
    application: Option<String>,
    application_fee: Option<String>,
    application_fee_amount: Option<i64>,
    balance_transaction: Option<String>,
    billing_details: Value,
    calculated_statement_descriptor: Option<String>,
    /// Whether the money was taken, and not only reserved.
    pub captured: bool,
    created: i64,
    /// Three letters, lower case.
    pub currency: String,
    /// `cus_…`
    pub customer: Option<String>,
    description: Option<String>,
    /// Whether a bank has ever disputed it.
    pub disputed: bool,
    failure_balance_transaction: Option<String>,
    failure_code: Option<String>,
    failure_message: Option<String>,
    fraud_details: Value,
    livemode: bool,
    /// The PaymentIntent's, at the moment of the attempt.
    pub metadata: Metadata,
    on_behalf_of: Option<String>,
    outcome: Value,
    /// Whether the issuer said yes.
    pub paid: bool,
    /// The PaymentIntent that made it.
    pub payment_intent: Option<String>,
    /// The PaymentMethod that was charged.
    pub payment_method: String,
    payment_method_details: Value,
    receipt_email: Option<String>,
    receipt_number: Option<String>,
    receipt_url: Option<String>,
    /// Whether nothing of it is left.
    pub refunded: bool,
    review: Option<String>,
    shipping: Option<Value>,
    source: Option<Value>,
    source_transfer: Option<String>,
    statement_descriptor: Option<String>,
    statement_descriptor_suffix: Option<String>,
    /// `succeeded`, `failed`, or `pending` while the bank has not decided.
    pub status: String,
    transfer_data: Option<Value>,
    transfer_group: Option<String>,
}

/// What the bank says to a charge.
#[derive(Debug, Clone, Copy)]
pub enum Answer<'a> {
    /// Yes: the money is taken, or only reserved.
    Yes {
        /// Whether it is taken.
        captured: bool,
        /// Whether Radar sees an elevated risk.
        at_risk: bool,
        /// Whether the card holder was not there.
        off_session: bool,
    },
    /// No.
    No(&'a Decline),
    /// Not known yet; [`decide`] tells.
    Later,
}

impl Answer<'_> {
    fn status(self) -> &'static str {
        match self {
            Answer::Yes { .. } => "succeeded",
            Answer::No(_) => "failed",
            Answer::Later => "pending",
        }
    }

    fn event(self) -> &'static str {
        match self {
            Answer::Yes { .. } => "charge.succeeded",
            Answer::No(_) => "charge.failed",
            Answer::Later => "charge.pending",
        }
    }
}

impl Charge {
    /// Until when what is reserved can be captured, in s since 1970.
    pub fn capture_before_s(&self) -> Option<i64> {
        self.payment_method_details.pointer("/card/capture_before").and_then(Value::as_i64)
    }

    /// What a dispute says of the card.
    pub fn disputed_card(&self, is_inquiry: bool) -> Value {
        let of = |name: &str| self.payment_method_details.pointer(&format!("/card/{name}")).cloned();
        json!({
            "brand": of("brand"), "case_type": if is_inquiry { "inquiry" } else { "chargeback" }, "network": of("network"),
            "network_reason_code": "83",
        })
    }

    /// The bank holds the amount for so long. <https://docs.stripe.com/payments/place-a-hold-on-a-payment-method>
    fn held(&mut self, off_session: bool, now_s: i64) {
        let Some(card) = self.payment_method_details.pointer_mut("/card").and_then(Value::as_object_mut)
        else {
            return;
        };
        let is_visa = card.get("brand").and_then(Value::as_str) == Some("visa");
        let lasts_s = if is_visa && off_session { VISA_OFF_SESSION_S } else { HELD_S };
        card.insert("capture_before".to_owned(), json!(now_s + lasts_s));
    }

    /// What was taken is in the merchant's balance.
    fn moved(&mut self, call: &mut Call, amount_minor: i64) -> Outcome<()> {
        let row = balance::record(call, Movement::Charge, &self.id, amount_minor, &self.currency)?;
        self.balance_transaction = Some(row);
        Ok(())
    }

    /// The one place where simulated money moves.
    fn answered(&mut self, answer: Answer, now_s: i64) {
        if let Answer::Yes { captured: false, off_session, .. } = answer {
            self.held(off_session, now_s);
        }
        self.paid = matches!(answer, Answer::Yes { .. });
        self.captured = matches!(answer, Answer::Yes { captured: true, .. });
        self.amount_captured = if self.captured { self.amount } else { 0 };
        self.status = answer.status().to_owned();
        self.outcome = match answer {
            Answer::Yes { at_risk: true, .. } => json!({
                "network_status": "approved_by_network", "reason": null, "risk_level": "elevated", "risk_score": 70,
                "seller_message": "Payment complete.", "type": "authorized", "advice_code": null, "network_advice_code": null,
                "network_decline_code": null,
            }),
            Answer::Yes { .. } | Answer::Later => json!({
                "network_status": "approved_by_network", "reason": null, "risk_level": "normal", "risk_score": 10,
                "seller_message": "Payment complete.", "type": "authorized", "advice_code": null, "network_advice_code": null,
                "network_decline_code": null,
            }),
            // By default Radar blocks the highest risk, and the issuer is never asked.
            Answer::No(decline) if decline.blocked => json!({
                "network_status": "not_sent_to_network", "reason": "highest_risk_level", "risk_level": "highest", "risk_score": 85,
                "seller_message": "Stripe blocked this payment as too risky.", "type": "blocked", "advice_code": null,
                "network_advice_code": null, "network_decline_code": null,
            }),
            Answer::No(decline) => json!({
                "network_status": "declined_by_network", "reason": decline.decline_code.unwrap_or(decline.code),
                "risk_level": "normal", "risk_score": 10,
                "seller_message": "The bank did not return any further details with this decline.", "type": "issuer_declined", "advice_code": null,
                "network_advice_code": null, "network_decline_code": null,
            }),
        };
        if let Answer::No(decline) = answer {
            self.failure_code = Some(decline.code.to_owned());
            self.failure_message = Some(decline.message.to_owned());
        }
    }
}

/// Charges the card for a PaymentIntent.
pub fn create(
    call: &mut Call,
    intent: &PaymentIntent,
    payment_method: &PaymentMethod,
    answer: Answer,
) -> Outcome<Charge> {
    let mut charge = Charge {
        id: call.new_id(Kind::Charge),
        object: "charge".to_owned(),
        amount: intent.amount,
        amount_captured: 0,
        amount_refunded: 0,
        application: None,
        application_fee: None,
        application_fee_amount: None,
        balance_transaction: None,
        billing_details: no_billing_details(),
        calculated_statement_descriptor: None,
        captured: false,
        created: call.now_s(),
        currency: intent.currency.clone(),
        customer: intent.customer.clone(),
        description: intent.description.clone(),
        disputed: false,
        failure_balance_transaction: None,
        failure_code: None,
        failure_message: None,
        fraud_details: json!({}),
        livemode: false,
        metadata: intent.metadata.clone(),
        on_behalf_of: None,
        outcome: Value::Null,
        paid: false,
        payment_intent: Some(intent.id.clone()),
        payment_method: payment_method.id.clone(),
        payment_method_details: details_of(intent, &payment_method.card, answer),
        receipt_email: intent.receipt_email.clone(),
        receipt_number: None,
        receipt_url: None,
        refunded: false,
        review: None,
        shipping: None,
        source: None,
        source_transfer: None,
        statement_descriptor: intent.statement_descriptor.clone(),
        statement_descriptor_suffix: intent.statement_descriptor_suffix.clone(),
        status: String::new(),
        transfer_data: None,
        transfer_group: intent.transfer_group.clone(),
    };
    charge.answered(answer, call.now_s());
    // An asynchronous capture moves the balance a moment later.
    let is_async = charge.captured && intent.capture_method == "automatic_async";
    if charge.captured && !is_async {
        charge.moved(call, charge.amount)?;
    }
    let links = Links {
        customer: intent.customer.clone(),
        parent: Some(intent.id.clone()),
        due_ms: is_async.then(|| call.now_ms + ASYNC_CAPTURE_MS),
        ..Links::default()
    };
    call.insert(Kind::Charge, &charge.id, &charge, links)?;
    events::record(call, answer.event(), &charge)?;
    Ok(charge)
}

/// What a charge says of its card. It is less than the PaymentMethod says, and what the networks add.
fn details_of(intent: &PaymentIntent, card: &Value, answer: Answer) -> Value {
    let of = |name: &str| card.get(name).cloned().unwrap_or_default();
    let network = card.pointer("/networks/available/0").cloned().unwrap_or_default();
    let approved = matches!(answer, Answer::Yes { .. });
    let details = json!({
        "amount_authorized": approved.then_some(intent.amount),
        "authorization_code": approved.then_some("123456"),
        "brand": of("brand"),
        "checks": of("checks"),
        "country": of("country"),
        "electronic_commerce_indicator": null,
        "exp_month": of("exp_month"),
        "exp_year": of("exp_year"),
        "fingerprint": of("fingerprint"),
        "funding": of("funding"),
        "installments": null,
        "last4": of("last4"),
        "mandate": null,
        "network": network,
        "network_transaction_id": null,
        "regulated_status": of("regulated_status"),
        "three_d_secure": authentication_of(intent, card),
        "transaction_link_id": null,
        "wallet": null,
    });
    json!({ "card": details, "type": "card" })
}

/// How the card holder was authenticated: only a PaymentIntent that has waited for that comes from the 3-D Secure page.
fn authentication_of(intent: &PaymentIntent, card: &Value) -> Option<Value> {
    let indicator = if card.get("brand")? == "mastercard" { "02" } else { "05" };
    (intent.status == Status::RequiresAction).then(|| {
        json!({
            "authentication_flow": "challenge",
            "electronic_commerce_indicator": indicator,
            "exemption_indicator": null,
            "result": "authenticated",
            "result_reason": null,
            "transaction_id": format!("3ds_{}", intent.id),
            "version": "2.2.0",
        })
    })
}

/// The bank's decision about a pending charge.
pub fn decide(call: &mut Call, id: &str, answer: Answer) -> Outcome<()> {
    let mut charge: Charge = call.of_param(Kind::Charge, id, "charge")?;
    charge.answered(answer, call.now_s());
    if charge.captured {
        charge.moved(call, charge.amount)?;
    }
    save(call, &charge)?;
    events::record(call, answer.event(), &charge)
}

/// Ends a pending charge whose PaymentIntent was cancelled.
pub fn abandon(call: &mut Call, id: &str) -> Outcome<()> {
    let mut charge: Charge = call.of_param(Kind::Charge, id, "charge")?;
    charge.status = "failed".to_owned();
    charge.failure_message = Some("The payment was canceled while it was being processed.".to_owned());
    save(call, &charge)?;
    events::record(call, "charge.failed", &charge)
}

/// Takes reserved money, and gives the rest free if it is the last capture.
pub fn capture(call: &mut Call, id: &str, amount_minor: i64, is_final: bool) -> Outcome<()> {
    let mut charge: Charge = call.of_param(Kind::Charge, id, "charge")?;
    charge.captured = true;
    charge.amount_captured += amount_minor;
    charge.moved(call, amount_minor)?;
    let is_refunded = is_final && release(call, &mut charge)?;
    save(call, &charge)?;
    events::record(call, "charge.captured", &charge)?;
    if is_refunded { events::record(call, "charge.refunded", &charge) } else { Ok(()) }
}

/// Gives reserved money free because it was voided.
pub fn void(call: &mut Call, id: &str) -> Outcome<()> {
    let mut charge: Charge = call.of_param(Kind::Charge, id, "charge")?;
    if !release(call, &mut charge)? {
        return Ok(());
    }
    save(call, &charge)?;
    events::record(call, "charge.refunded", &charge)
}

/// Gives reserved money free because its time is over.
pub fn expire(call: &mut Call, id: &str) -> Outcome<()> {
    let charge: Charge = call.of_param(Kind::Charge, id, "charge")?;
    events::record(call, "charge.expired", &charge)
}

/// What is not captured is given free. Gives whether that is a refund: it depends on the version of the request.
fn release(call: &mut Call, charge: &mut Charge) -> Outcome<bool> {
    let rest_minor = charge.amount - charge.amount_captured;
    if rest_minor <= 0 || !stripe::refunds_releases(call.api_version) {
        return Ok(false);
    }
    refunds::of_release(call, charge, rest_minor)?;
    charge.amount_refunded = rest_minor;
    charge.refunded = charge.amount_refunded == charge.amount;
    Ok(true)
}

/// What time does to a charge: an asynchronous capture has moved the balance.
pub fn settle(call: &mut Call, mut charge: Charge) -> Outcome<()> {
    charge.moved(call, charge.amount_captured)?;
    call.save(Kind::Charge, &charge.id, &charge, None)?;
    events::record(call, "charge.updated", &charge)
}

/// Writes a charge back.
pub fn save(call: &mut Call, charge: &Charge) -> Outcome<()> {
    let due_ms = call.find(Kind::Charge, &charge.id)?.and_then(|row| row.due_ms);
    call.save(Kind::Charge, &charge.id, charge, due_ms)
}

/// `POST /v1/charges/{id}`: what a merchant writes on it. No sum ever changes so.
pub fn update(call: &mut Call, id: &str, params: &Params) -> Outcome<Value> {
    params.allow(&["description", "metadata", "receipt_email", "transfer_group"])?;
    let mut charge: Charge = call.of_path(Kind::Charge, id, "charge")?;
    charge.metadata = metadata::merge(&charge.metadata, params)?;
    set(params, "description", &mut charge.description)?;
    set(params, "receipt_email", &mut charge.receipt_email)?;
    set(params, "transfer_group", &mut charge.transfer_group)?;
    save(call, &charge)?;
    events::record(call, "charge.updated", &charge)?;
    shown(&charge)
}

/// `GET /v1/charges/{id}`
pub fn retrieve(call: &mut Call, id: &str, params: &Params) -> Outcome<Value> {
    params.allow(&[])?;
    shown(&call.of_path::<Charge>(Kind::Charge, id, "charge")?)
}

/// `GET /v1/charges`
pub fn list(call: &mut Call, params: &Params) -> Outcome<Value> {
    params.allow(&["created", "customer", "ending_before", "limit", "payment_intent", "starting_after"])?;
    let query = Query {
        customer: params.text("customer")?.map(str::to_owned),
        parent: params.text("payment_intent")?.map(str::to_owned),
        ..Query::all(Kind::Charge)
    };
    lists::page(call, params, Page { query, url: "/v1/charges" })
}
