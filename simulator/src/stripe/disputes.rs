//! Disputes: a card holder's bank asks for the money of a charge, or takes it back. <https://docs.stripe.com/api/disputes>
//!
//! ```text
//! warning_needs_response ⇄ warning_under_review ─→ warning_closed              an inquiry: no money moves
//!          └──────────────────┬ escalates
//! needs_response ⇄ under_review ─→ won (reinstated) | lost (or a part)     the money was withdrawn when it began, or a moment later
//! lost ─→ won                                                             late, and rarely: the money comes back
//! prevented                                                               a `block`: no money moves; a `resolution`: it was withdrawn
//! ```
//! Several can be open at once, and one can be about more than the charge, whose currency may have moved.
//! They are made on the dashboard only (`POST /_sim/payments/{id}/disputes`). The PaymentIntent of a disputed charge stays `succeeded`.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::metadata::Metadata;
use crate::provider::{Call, Links};
use crate::store::{Query, Store};
use crate::stripe::balance::{self, Movement};
use crate::stripe::charge::{self, Charge};
use crate::stripe::errors::{ApiError, Outcome};
use crate::stripe::events;
use crate::stripe::kinds::Kind;
use crate::stripe::lists::{self, Page};
use crate::stripe::objects::{Objects, shown};
use crate::stripe::params::Params;
use crate::stripe::refunds_later;

/// How long the merchant has to respond.
const RESPOND_WITHIN_S: i64 = 7 * 24 * 60 * 60;

/// `status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The bank asks: an inquiry.
    WarningNeedsResponse,
    /// It looks at the answer.
    WarningUnderReview,
    /// It has not asked for the money.
    WarningClosed,
    /// The money is withdrawn, and the merchant can object.
    NeedsResponse,
    /// The merchant has objected.
    UnderReview,
    /// For the merchant.
    Won,
    /// For the card holder.
    Lost,
    /// Ended before it began, by a programme of the network's.
    Prevented,
}

/// `payment_method_details.card.case_type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum CaseType {
    Block,
    Chargeback,
    Compliance,
    Inquiry,
    Resolution,
}

impl Status {
    const fn is_warning(self) -> bool {
        matches!(self, Self::WarningNeedsResponse | Self::WarningUnderReview | Self::WarningClosed)
    }

    const fn is_closed(self) -> bool {
        matches!(self, Self::WarningClosed | Self::Won | Self::Lost | Self::Prevented)
    }

    /// Whether money is withdrawn while it stands so.
    fn withdraws(self, case_type: CaseType) -> bool {
        match self {
            Self::NeedsResponse | Self::UnderReview | Self::Lost => true,
            Self::Prevented => case_type == CaseType::Resolution,
            Self::WarningNeedsResponse | Self::WarningUnderReview | Self::WarningClosed | Self::Won => false,
        }
    }
}

/// A dispute.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Dispute {
    /// `du_…`
    pub id: String,
    object: String,
    /// In the smallest unit of the charge's currency: all of the charge, or a part.
    pub amount: i64,
    balance_transactions: Vec<Value>,
    /// The charge that it is about.
    pub charge: String,
    created: i64,
    currency: String,
    enhanced_eligibility_types: Vec<String>,
    evidence: Value,
    evidence_details: Value,
    intended_submission_method: Option<String>,
    /// Whether the merchant can still give the money back by a refund.
    pub is_charge_refundable: bool,
    livemode: bool,
    metadata: Metadata,
    network_reason_code: Option<String>,
    payment_intent: Option<String>,
    payment_method_details: Value,
    reason: String,
    /// How it stands.
    pub status: Status,
}

impl Dispute {
    /// What of the charge is withdrawn: its share of what has moved in the account's own currency.
    pub fn withdrawn_minor(&self) -> i64 {
        let amounts = self.balance_transactions.iter().filter_map(|moved| moved.get("amount")?.as_i64());
        let (withdrawn, reinstated): (Vec<i64>, Vec<i64>) = amounts.partition(|amount| *amount < 0);
        let withdrawn = -withdrawn.iter().sum::<i64>();
        let left = withdrawn - reinstated.iter().sum::<i64>();
        (self.amount * left).checked_div(withdrawn).unwrap_or(0)
    }

    fn record_movement(&mut self, call: &mut Call, movement: Movement, amount: i64) -> Outcome<()> {
        let id = balance::record(call, movement, &self.id, amount, &self.currency)?;
        self.balance_transactions.push(call.of_param(Kind::BalanceTransaction, &id, "id")?);
        Ok(())
    }

    fn save(&self, call: &mut Call) -> Outcome<()> {
        Ok(call.save(Kind::Dispute, &self.id, self, None)?)
    }

    /// The money is taken from the merchant's balance.
    fn withdraw(&mut self, call: &mut Call) -> Outcome<()> {
        self.record_movement(call, Movement::DisputeWithdrawn, self.amount)?;
        self.save(call)?;
        events::record(call, "charge.dispute.funds_withdrawn", self)
    }

    /// Whether that is still to come.
    fn is_to_withdraw(&self) -> bool {
        self.balance_transactions.is_empty() && self.status.withdraws(self.case_type())
    }

    fn case_type(&self) -> CaseType {
        let said = self.payment_method_details.pointer("/card/case_type").cloned().unwrap_or_default();
        serde_json::from_value(said).unwrap_or(CaseType::Chargeback)
    }
}

/// What `POST /_sim/payments/{id}/disputes` takes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DisputeAction {
    /// Of a new one; all that was captured, if it is not said. It can be more than that.
    amount: Option<i64>,
    /// What it comes to.
    #[serde(default = "needs_response")]
    status: Status,
    /// What comes back although it is lost: Stripe's dashboard calls that partially won.
    reinstated: Option<i64>,
    /// Begins one although another one is open.
    #[serde(default)]
    another: bool,
    /// Which one comes to the status; the newest that is open, if it is not said.
    dispute: Option<String>,
    /// Of a new one.
    reason: Option<String>,
    network_reason_code: Option<String>,
    case_type: Option<CaseType>,
    /// How long after a new one the money is withdrawn; at once, if it is not said.
    withdrawn_after_ms: Option<i64>,
    /// Whether one that is won after it was lost is told as closed a second time.
    #[serde(default)]
    closed_again: bool,
}

const fn needs_response() -> Status {
    Status::NeedsResponse
}

/// The card holder's bank begins a dispute of this charge, or one that there is comes to another status: the one that is named, or the
/// newest that is open; one that is lost can be won late.
pub fn act(call: &mut Call, charge: &str, action: &DisputeAction) -> Outcome<Value> {
    let charge: Charge = call.of_param(Kind::Charge, charge, "charge")?;
    let mut all = of_charge(call, &charge.id)?.into_iter();
    let wins = action.status == Status::Won;
    let found = match &action.dispute {
        Some(id) => {
            Some(all.find(|one| one.id == *id).ok_or_else(|| refuse("This payment has no such dispute."))?)
        }
        None if action.another => None,
        None => {
            let all: Vec<Dispute> = all.collect();
            let open = all.iter().find(|dispute| !dispute.status.is_closed());
            let lost = || all.iter().find(|dispute| wins && dispute.status == Status::Lost);
            open.or_else(lost).cloned()
        }
    };
    match found {
        Some(dispute) if action.amount.is_none_or(|amount| amount == dispute.amount) => {
            transition(call, dispute, action)
        }
        Some(_) => Err(refuse("A dispute of this payment is open, and is about another amount.")),
        None => begin(call, charge, action),
    }
}

fn begin(call: &mut Call, mut charge: Charge, action: &DisputeAction) -> Outcome<Value> {
    let status = action.status;
    let amount = action.amount.unwrap_or(charge.amount_captured);
    if matches!(status, Status::WarningClosed | Status::Won) || action.reinstated.is_some() {
        return Err(refuse("No dispute of this payment is open."));
    }
    if amount < 1 {
        return Err(refuse("There is no such amount to be disputed."));
    }
    let case_type = action.case_type.unwrap_or(match status {
        Status::Prevented => CaseType::Block,
        status if status.is_warning() => CaseType::Inquiry,
        _ => CaseType::Chargeback,
    });
    let reason = action.reason.as_deref().unwrap_or("fraudulent");
    let code = action.network_reason_code.clone().or_else(|| charge.fraud_reason_code(reason));
    let withdraws = status.withdraws(case_type);
    let mut dispute = Dispute {
        id: call.new_id(Kind::Dispute),
        object: "dispute".to_owned(),
        amount,
        balance_transactions: Vec::new(),
        charge: charge.id.clone(),
        created: call.now_s(),
        currency: charge.currency.clone(),
        enhanced_eligibility_types: Vec::new(),
        evidence: no_evidence(),
        evidence_details: json!({
            "due_by": call.now_s() + RESPOND_WITHIN_S, "enhanced_eligibility": {}, "has_evidence": false, "past_due": false,
            "submission_count": 0, "submission_method": "not_submitted",
        }),
        intended_submission_method: None,
        is_charge_refundable: !withdraws,
        livemode: false,
        metadata: Metadata::new(),
        network_reason_code: code.clone(),
        payment_intent: charge.payment_intent.clone(),
        payment_method_details: json!({ "type": "card", "card": charge.disputed_card(&json!(case_type), code.as_deref()) }),
        reason: reason.to_owned(),
        status,
    };
    let links = Links {
        customer: None,
        parent: charge.payment_intent.clone(),
        label: Some(charge.id.clone()),
        due_ms: action.withdrawn_after_ms.filter(|_| withdraws).map(|after_ms| call.now_ms + after_ms),
    };
    call.insert(Kind::Dispute, &dispute.id, &dispute, links)?;
    charge.disputed = true;
    charge::save(call, &charge)?;
    if withdraws {
        refunds_later::disputed(call, &charge.id)?;
    }
    let at_once = withdraws && action.withdrawn_after_ms.is_none();
    if at_once {
        dispute.record_movement(call, Movement::DisputeWithdrawn, amount)?;
        dispute.save(call)?;
    }
    events::record(call, "charge.dispute.created", &dispute)?;
    if at_once {
        events::record(call, "charge.dispute.funds_withdrawn", &dispute)?;
    }
    if status == Status::Lost {
        events::record(call, "charge.dispute.closed", &dispute)?;
    }
    shown(&dispute)
}

/// What time does to a dispute: its money is withdrawn.
pub fn settle(call: &mut Call, mut dispute: Dispute) -> Outcome<()> {
    if dispute.is_to_withdraw() { dispute.withdraw(call) } else { dispute.save(call) }
}

fn transition(call: &mut Call, mut dispute: Dispute, action: &DisputeAction) -> Outcome<Value> {
    let DisputeAction { status, reinstated, .. } = *action;
    let before = dispute.status;
    if before == status || status == Status::Prevented || (status.is_warning() && !before.is_warning()) {
        return Err(refuse("A dispute does not come to that status from its own."));
    }
    if before.is_warning() && matches!(status, Status::Won | Status::Lost) {
        return Err(refuse(
            "An inquiry is neither won nor lost: it is warning_closed, or escalates to needs_response.",
        ));
    }
    if before.is_closed() && (before, status) != (Status::Lost, Status::Won) {
        return Err(refuse("A dispute that is closed is not opened again; one that is lost can be won."));
    }
    if reinstated.is_some_and(|part| status != Status::Lost || part < 1 || part >= dispute.amount) {
        return Err(refuse("A part comes back of a dispute that is lost, and less than its amount."));
    }
    if dispute.is_to_withdraw() {
        dispute.withdraw(call)?;
    }
    let unchanged = dispute.clone();
    let case_type = dispute.case_type();
    dispute.status = status;
    // What was given back to the merchant can be refunded again.
    dispute.is_charge_refundable = status.is_warning() || status == Status::Won;
    let movement = match (before.withdraws(case_type), status.withdraws(case_type)) {
        (false, true) => Some((Movement::DisputeWithdrawn, "charge.dispute.funds_withdrawn")),
        (true, false) => Some((Movement::DisputeReinstated, "charge.dispute.funds_reinstated")),
        (true, true) if reinstated.is_some() => {
            Some((Movement::DisputeReinstated, "charge.dispute.funds_reinstated"))
        }
        (false, false) | (true, true) => None,
    };
    match movement {
        Some((Movement::DisputeReinstated, _)) => {
            let left = unchanged.withdrawn_minor();
            dispute.record_movement(call, Movement::DisputeReinstated, reinstated.unwrap_or(left))?;
        }
        Some((movement, _)) => dispute.record_movement(call, movement, dispute.amount)?,
        None => {}
    }
    dispute.save(call)?;
    events::record_change(call, "charge.dispute.updated", &unchanged, &dispute)?;
    if status.is_closed() && (!before.is_closed() || action.closed_again) {
        events::record(call, "charge.dispute.closed", &dispute)?;
    }
    if let Some((_, event)) = movement {
        events::record(call, event, &dispute)?;
    }
    shown(&dispute)
}

fn comes_to(status: Status) -> DisputeAction {
    DisputeAction {
        amount: None,
        status,
        reinstated: None,
        another: false,
        dispute: None,
        reason: None,
        network_reason_code: None,
        case_type: None,
        withdrawn_after_ms: None,
        closed_again: false,
    }
}

/// Whether a dispute forbids to refund a charge.
pub fn forbids_refund(call: &Call, charge: &str) -> Outcome<bool> {
    Ok(of_charge(call, charge)?.iter().any(|dispute| !dispute.is_charge_refundable))
}

/// Whoever has all of the money back has nothing to inquire about.
pub fn refunded(call: &mut Call, charge: &str) -> Outcome<()> {
    let inquiries = of_charge(call, charge)?.into_iter();
    for inquiry in inquiries.filter(|dispute| dispute.status.is_warning() && !dispute.status.is_closed()) {
        transition(call, inquiry, &comes_to(Status::WarningClosed))?;
    }
    Ok(())
}

/// The disputes of a charge, the newest first.
fn of_charge(call: &Call, charge: &str) -> Outcome<Vec<Dispute>> {
    all_of(call.store, charge)
}

/// What of a charge its card holder's bank has taken back.
pub fn withdrawn_minor(store: &dyn Store, charge: &str) -> Outcome<i64> {
    Ok(all_of(store, charge)?.iter().map(Dispute::withdrawn_minor).sum())
}

fn all_of(store: &dyn Store, charge: &str) -> Outcome<Vec<Dispute>> {
    let query = Query { labels: vec![charge.to_owned()], ..Query::all(Kind::Dispute) };
    let rows = store.list(&query)?;
    Ok(rows.iter().map(|row| serde_json::from_str(&row.body)).collect::<Result<_, _>>()?)
}

/// `GET /v1/disputes/{id}`
pub fn retrieve(call: &mut Call, id: &str, params: &Params) -> Outcome<Value> {
    params.allow(&[])?;
    shown(&call.of_path::<Dispute>(Kind::Dispute, id, "dispute")?)
}

/// `POST /v1/disputes/{id}/close`: the merchant gives up.
pub fn close(call: &mut Call, id: &str, params: &Params) -> Outcome<Value> {
    params.allow(&[])?;
    let dispute: Dispute = call.of_path(Kind::Dispute, id, "dispute")?;
    if dispute.status.is_closed() {
        return Err(ApiError::invalid("This dispute is already closed.").outcome());
    }
    let end = if dispute.status.is_warning() { Status::WarningClosed } else { Status::Lost };
    transition(call, dispute, &comes_to(end))
}

/// `GET /v1/disputes`
pub fn list(call: &mut Call, params: &Params) -> Outcome<Value> {
    params.allow(&["charge", "created", "ending_before", "limit", "payment_intent", "starting_after"])?;
    let query = Query {
        parent: params.text("payment_intent")?.map(str::to_owned),
        labels: params.text("charge")?.map(str::to_owned).into_iter().collect(),
        ..Query::all(Kind::Dispute)
    };
    lists::page(call, params, Page { kind: Kind::Dispute, query, url: "/v1/disputes" })
}

fn no_evidence() -> Value {
    const FIELDS: [&str; 26] = [
        "access_activity_log",
        "billing_address",
        "cancellation_policy",
        "cancellation_policy_disclosure",
        "cancellation_rebuttal",
        "customer_communication",
        "customer_email_address",
        "customer_name",
        "customer_purchase_ip",
        "customer_signature",
        "duplicate_charge_documentation",
        "duplicate_charge_explanation",
        "duplicate_charge_id",
        "product_description",
        "receipt",
        "refund_policy",
        "refund_policy_disclosure",
        "refund_refusal_explanation",
        "service_date",
        "service_documentation",
        "shipping_address",
        "shipping_carrier",
        "shipping_date",
        "shipping_documentation",
        "shipping_tracking_number",
        "uncategorized_text",
    ];
    let mut evidence: Map<String, Value> =
        FIELDS.iter().map(|name| ((*name).to_owned(), Value::Null)).collect();
    evidence.insert("uncategorized_file".to_owned(), Value::Null);
    evidence.insert("enhanced_evidence".to_owned(), json!({}));
    Value::Object(evidence)
}

fn refuse(message: &str) -> crate::stripe::errors::Failure {
    let mut error = ApiError::invalid(message);
    error.status = 409;
    error.refused()
}
