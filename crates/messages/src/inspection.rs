//! All of an object that an operator may see: what happened when, and what is open. Never what a request carried, nor a token,
//! nor whose address a receipt goes to. Of the card only what stands on a receipt.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::snapshot::{AuditRow, Snapshot, snapshot};
use once::object_state::TimelineEntry;
use once::sorted;
use payments::engine::{CallState, ObjectState, ProviderCall, Settlement};
use payments::flows::void::is_voidable;
use payments::payment::card::Card;
use payments::payment::order_link::OrderLinks;
use payments::payment::result::ProviderResult;
use payments::payment::tries::Try;
use payments::transitions::{by_hand, polling};

/// An object, for the desk.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Inspection {
    /// Its resource and its keys, as the read model has them; the payment without its JSON.
    pub snapshot: Snapshot,
    /// What the payment is for, in its account's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// To whom its receipts go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt_email: Option<String>,
    /// The account's own data about the payment, sorted by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metadata: Vec<(String, String)>,
    /// What may be taken of the payment's amount, in minor units; 0 if nothing, or if something is under way.
    pub capturable_minor: u64,
    /// What may be given back, in minor units.
    pub refundable_minor: u64,
    /// Whether the payment may be given up.
    pub voidable: bool,
    /// What a move of its money is confirmed against: [`Payment::figures`](payments::payment::Payment::figures).
    #[serde(default)]
    pub figures: String,
    /// Until when what is reserved can be captured, in ms since the epoch.
    #[serde(default)]
    pub capture_before_ms: Option<u64>,
    /// The card that paid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub card: Option<Card>,
    /// The move of the payment that is under way.
    pub under_way: Option<String>,
    /// When the provider is asked next how the payment stands, in ms since the epoch.
    pub next_check_at_ms: Option<u64>,
    /// What happened to the keys, oldest first.
    pub timeline: Vec<TimelineEntry>,
    /// How often each key was replayed, by its number.
    #[serde(default)]
    pub replays: BTreeMap<u32, u32>,
    /// The tries of the payment.
    #[serde(default)]
    pub tries: Vec<Try>,
    /// What is known of the links to the order.
    #[serde(default)]
    pub links: Option<OrderLinks>,
    /// The link through which the payment was begun.
    #[serde(default)]
    pub link_revision: Option<u32>,
    /// The number of the call whose capture has failed for good, as it seems: an operator says how it ended.
    #[serde(default)]
    pub given_up_call: Option<u32>,
    /// The numbers of the calls that Adyen has taken over and told nothing of for long: an operator can say how they ended.
    #[serde(default)]
    pub untold_calls: Vec<u32>,
    /// The calls to providers.
    pub calls: Vec<CallView>,
    /// The jobs that are staged and not confirmed.
    pub jobs: Vec<JobView>,
    /// The events that providers have told of.
    pub events: Vec<EventView>,
}

/// A call to a provider.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[allow(missing_docs, reason = "as in `ProviderCall`")]
pub struct CallView {
    #[serde(default)]
    pub call_id: u32,
    pub key_id: u32,
    /// What it does.
    #[serde(default)]
    pub kind: String,
    pub name: String,
    pub provider: String,
    #[serde(rename = "derived_key")]
    pub provider_key: String,
    pub status: String,
    pub in_doubt: bool,
    /// Why a person must look.
    #[serde(default)]
    pub needs_review: Option<String>,
    /// The provider's id of what the call made, although its answer settled nothing.
    #[serde(default)]
    pub provider_id: Option<String>,
    /// The operator who has settled it, and why.
    #[serde(default)]
    pub by_hand: Option<(String, String)>,
    /// One word for the answer.
    pub result: Option<String>,
    /// The provider's code of a refusal.
    pub code: Option<String>,
    /// The HTTP status of the answer.
    pub http_status: Option<u16>,
    /// The provider's id of the request.
    pub request_id: Option<String>,
    pub sends: u32,
    pub failures: u32,
    pub first_sent_at_ms: Option<u64>,
    pub last_sent_at_ms: Option<u64>,
    pub next_try_at_ms: u64,
}

/// A job that is staged.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[allow(missing_docs, reason = "as in `StagedJob`")]
pub struct JobView {
    pub job_id: String,
    pub kind: String,
    pub staged_at_ms: u64,
    pub sends: u32,
    pub next_at_ms: u64,
}

/// An event of a provider.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[allow(missing_docs, reason = "as in `TakenEvent`")]
pub struct EventView {
    pub event_id: String,
    pub provider: String,
    pub kind: String,
    pub received_at_ms: u64,
}

impl Inspection {
    /// Of these rows, with what is not loaded with them.
    pub fn of(
        state: &ObjectState,
        timeline: Vec<TimelineEntry>,
        events: Vec<EventView>,
        audit: Vec<AuditRow>,
        now_ms: u64,
    ) -> Self {
        let mut snapshot = snapshot(state, audit, now_ms);
        let refunded_minor = snapshot.payment.as_ref().map_or(0, |payment| payment.refunded_minor);
        if let Some(payment) = &mut snapshot.payment {
            payment.shown.clear();
        }
        let payment = state.resource.payment.as_ref();
        let free = payment.filter(|payment| payment.pending.is_none());
        let refundable_minor = free
            .filter(|payment| !payment.forbids_refunds())
            .map_or(0, |payment| payment.captured_minor().saturating_sub(payment.disputed_minor()));
        let capturable = free.filter(|payment| payment.status() == "requires_capture");
        Self {
            snapshot,
            description: payment.and_then(|payment| payment.description.clone()),
            receipt_email: payment.and_then(|payment| payment.receipt_email.clone()),
            metadata: payment.map(|payment| payment.metadata.clone()).unwrap_or_default(),
            capture_before_ms: capturable.and_then(|payment| payment.capture_before_ms),
            capturable_minor: capturable.map_or(0, |payment| payment.amount.get()),
            refundable_minor: refundable_minor.saturating_sub(refunded_minor),
            voidable: free.is_some_and(|payment| is_voidable(&payment.state)),
            figures: payment.map(|payment| payment.figures(&state.resource.refunds)).unwrap_or_default(),
            card: payment.and_then(|payment| payment.card),
            under_way: payment.and_then(|payment| payment.pending).map(|pending| pending.state().to_owned()),
            next_check_at_ms: payment.and_then(polling::due_at_ms),
            timeline,
            replays: sorted::map(state.keys.iter().map(|key| (key.key_id, key.replays))),
            tries: state.resource.tries.clone(),
            links: state.resource.links.clone(),
            link_revision: payment.and_then(|payment| payment.link_revision),
            given_up_call: by_hand::given_up(state, now_ms).map(|(call_id, _)| call_id),
            untold_calls: state
                .calls
                .iter()
                .filter(|call| by_hand::untold(state, call, now_ms).is_some())
                .map(|call| call.call_id)
                .collect(),
            calls: state.calls.iter().map(CallView::of).collect(),
            jobs: state
                .jobs
                .iter()
                .map(|job| JobView {
                    job_id: job.job_id.clone(),
                    kind: job.kind.as_str().to_owned(),
                    staged_at_ms: job.staged_at_ms,
                    sends: job.sends,
                    next_at_ms: job.next_at_ms,
                })
                .collect(),
            events,
        }
    }
}

impl CallView {
    /// Of a call.
    pub fn of(call: &ProviderCall) -> Self {
        let settlement = match &call.state {
            CallState::Settled(settlement) => Some(settlement),
            CallState::Frozen | CallState::InFlight | CallState::Unknown => None,
        };
        let reply = match settlement {
            Some(Settlement::Answered(reply)) => Some(reply),
            _ => None,
        };
        let code = reply.and_then(|reply| match &reply.result {
            ProviderResult::Declined { code, decline_code, .. } => {
                Some(decline_code.clone().unwrap_or_else(|| code.clone()))
            }
            ProviderResult::Rejected { code, .. } => Some(code.clone()),
            _ => None,
        });
        let result = match settlement {
            Some(Settlement::Answered(reply)) => Some(reply.result.name()),
            Some(Settlement::NotExecuted) => Some("not_executed"),
            Some(Settlement::NeedsReview) => Some("flagged"),
            None => None,
        };
        let by_hand = call.evidence.by_hand.as_ref();
        Self {
            call_id: call.call_id,
            key_id: call.key_id,
            kind: call.kind.as_str().to_owned(),
            name: call.name.clone(),
            provider: call.provider.as_str().to_owned(),
            provider_key: call.provider_key.clone(),
            status: call.state.name().to_owned(),
            in_doubt: call.in_doubt(),
            needs_review: call.needs_review().map(str::to_owned),
            provider_id: call.evidence.provider_id.clone().filter(|_| settlement.is_none()),
            by_hand: by_hand.map(|by_hand| (by_hand.by.clone(), by_hand.reason.clone())),
            result: result.map(str::to_owned),
            code,
            http_status: reply.map(|reply| reply.status),
            request_id: reply.and_then(|reply| reply.request_id.clone()),
            sends: call.sends,
            failures: call.failures,
            first_sent_at_ms: call.first_sent_at_ms,
            last_sent_at_ms: call.last_sent_at_ms,
            next_try_at_ms: call.next_try_at_ms,
        }
    }
}
