//! What an object tells the read model about itself.

use std::cmp::Reverse;

use serde::{Deserialize, Serialize};

use once::sorted;
use payments::engine::{CallState, KeyRecord, Lifecycle, ObjectState, ProviderCall, Settlement};
use payments::payment::own_keys::Merchant;
use payments::payment::result::CallKind;
use payments::payment::{PaymentState, Watch};
use payments::providers::Provider;
use payments::transitions::left_open::is_closing;

/// How many of its keys and refunds an object tells of: those that changed last. Of the others it has told before; those that
/// are open it tells of again.
const NEWEST: usize = 100;

/// How many audit records go with one snapshot; the rest goes with the next, once this one is shown.
pub const AUDIT_MAX: u32 = 100;

/// An object at one version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The object, as hexadecimal digits.
    pub object: String,
    /// Grows with each change.
    pub version: u64,
    /// When it was taken, in ms since the epoch.
    pub at_ms: u64,
    /// Whose it is, as stored.
    pub owner: String,
    /// The payment that lives there.
    pub payment: Option<PaymentRow>,
    /// Its refunds.
    pub refunds: Vec<RefundRow>,
    /// The keys.
    pub keys: Vec<KeyRow>,
    /// The audit records that the read model may not have.
    pub audit: Vec<AuditRow>,
}

/// A payment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the columns are described in migrations/")]
pub struct PaymentRow {
    pub payment_id: String,
    pub status: String,
    pub amount_minor: u64,
    pub captured_minor: u64,
    pub refunded_minor: u64,
    #[serde(default)]
    pub refunded_elsewhere_minor: u64,
    pub currency: String,
    pub provider: String,
    pub provider_payment: Option<String>,
    #[serde(default)]
    pub stripe_account: Option<String>,
    #[serde(default)]
    pub merchant_account: Option<String>,
    pub order_id: Option<String>,
    pub failure_code: Option<String>,
    pub attempt: u32,
    #[serde(default)]
    pub pending_operation: Option<String>,
    #[serde(default)]
    pub wake_at_ms: Option<u64>,
    pub shown: String,
    pub created_at_ms: u64,
}

/// A refund.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the columns are described in migrations/")]
pub struct RefundRow {
    pub refund_id: String,
    pub payment_id: String,
    pub status: String,
    pub amount_minor: u64,
    pub currency: String,
    pub reason: String,
    pub provider: String,
    pub provider_refund: Option<String>,
    pub created_at_ms: u64,
}

/// A key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the columns are described in migrations/")]
pub struct KeyRow {
    pub key_id: u32,
    pub key_hash: String,
    pub owner: String,
    pub operation: Option<String>,
    pub status: String,
    pub recovery_point: String,
    pub attempts: u32,
    pub failures: u32,
    pub in_doubt: u8,
    pub flagged: u8,
    pub response_status: Option<u16>,
    pub wake_at_ms: Option<u64>,
    pub created_at_ms: u64,
    pub finished_at_ms: Option<u64>,
    #[serde(default)]
    pub expires_at_ms: Option<u64>,
}

/// The expression of SQL for what a row of the table `keys` is at `now_ms`. An object does not tell that a response has expired:
/// when it does is told when the key finishes. Older releases told it, and not when: there the default of `RETENTION_MS` counts.
pub fn key_status_sql(now_ms: u64) -> String {
    format!(
        "CASE WHEN status = 'finished' AND coalesce(expires_at_ms, finished_at_ms + 86400000) <= {now_ms}
            THEN 'expired' ELSE status END"
    )
}

/// An audit record as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the columns are described in migrations/")]
pub struct AuditRow {
    pub audit_id: u64,
    pub at_ms: u64,
    pub actor: String,
    pub action: String,
    pub subject: String,
    pub data: String,
}

impl Snapshot {
    /// Leaves half of each list away: of the keys and refunds those that changed first, of the audit the newest, which goes
    /// with the next snapshot. At least one of each stays. Gives whether there was anything to leave away.
    pub fn halve(&mut self) -> bool {
        let (refunds, keys, audit) = (self.refunds.len(), self.keys.len(), self.audit.len());
        self.refunds.truncate(refunds.div_ceil(2));
        self.keys.truncate(keys.div_ceil(2));
        self.audit.truncate(audit.div_ceil(2));
        refunds.max(keys).max(audit) > 1
    }
}

/// What the object tells at `now_ms` (since the epoch), with the audit records that the read model is not known to have.
pub fn snapshot(object_state: &ObjectState, audit: Vec<AuditRow>, now_ms: u64) -> Snapshot {
    let refunds = newest(
        &object_state.resource.refunds,
        |refund| refund.version,
        |refund| refund.status() == "pending",
    );
    let keys = newest(&object_state.keys, changed_at_ms, |key| matches!(key.lifecycle, Lifecycle::Open(_)));
    Snapshot {
        object: object_state.object.to_hex(),
        version: object_state.resource.version,
        at_ms: now_ms,
        owner: object_state.keys.first().map(|key| key.owner.to_text()).unwrap_or_default(),
        payment: payment(object_state),
        refunds: refunds.filter_map(|refund| refund_row(object_state, refund)).collect(),
        keys: keys.map(|key| key_row(object_state, key)).collect(),
        audit,
    }
}

/// Those that changed last, newest first; then the older ones that are open.
fn newest<T>(
    all: &[T],
    changed: impl Fn(&T) -> u64,
    is_open: impl Fn(&T) -> bool,
) -> impl Iterator<Item = &T> {
    let mut sorted: Vec<&T> = all.iter().rev().collect();
    sorted::by_key(&mut sorted, |one| Reverse(changed(one)));
    let told = move |(age, one): &(usize, &T)| *age < NEWEST || is_open(one);
    sorted.into_iter().enumerate().filter(told).map(|(_, one)| one)
}

/// When a key last changed in a way that is told, in ms since the epoch.
const fn changed_at_ms(key: &KeyRecord) -> u64 {
    match &key.lifecycle {
        Lifecycle::Open(open) => open.last_run_at_ms,
        Lifecycle::Finished(finished) => finished.finished_at_ms,
        // That it expired in its time is not told.
        Lifecycle::Expired(tombstone) => tombstone.finished_at_ms,
    }
}

fn payment(object_state: &ObjectState) -> Option<PaymentRow> {
    let payment = object_state.resource.payment.as_ref()?;
    Some(PaymentRow {
        payment_id: payment.id.to_string(),
        status: payment.status().to_owned(),
        amount_minor: payment.amount.get(),
        captured_minor: payment.captured_minor(),
        refunded_minor: payment.refunded_minor(&object_state.resource.refunds),
        refunded_elsewhere_minor: payment.refunded_elsewhere_minor,
        currency: payment.currency.as_str().to_owned(),
        provider: payment.provider.as_str().to_owned(),
        provider_payment: payment.provider_payment.clone(),
        stripe_account: payment.merchant_account.clone().filter(|_| payment.provider == Provider::Stripe),
        merchant_account: payment
            .merchant_account
            .as_deref()
            .and_then(Merchant::of)
            .map(|merchant| merchant.account.to_owned()),
        order_id: payment.order_id.clone(),
        failure_code: match &payment.state {
            PaymentState::Failed(failure) => Some(failure.code.clone()),
            _ => None,
        },
        attempt: payment.attempt,
        pending_operation: payment.pending.map(|pending| pending.operation().to_owned()),
        wake_at_ms: payment.watch.as_ref().and_then(Watch::due_at_ms),
        shown: payment.to_json(&object_state.resource.refunds, &object_state.resource.tries).to_string(),
        created_at_ms: payment.created_at_ms,
    })
}

fn refund_row(object_state: &ObjectState, refund: &payments::payment::Refund) -> Option<RefundRow> {
    let payment = object_state.resource.payment.as_ref()?;
    Some(RefundRow {
        refund_id: refund.id.to_string(),
        payment_id: payment.id.to_string(),
        status: refund.status().to_owned(),
        amount_minor: refund.amount.get(),
        currency: payment.currency.as_str().to_owned(),
        reason: refund.reason.as_str().to_owned(),
        provider: payment.provider.as_str().to_owned(),
        provider_refund: refund.provider_refund.clone(),
        created_at_ms: refund.created_at_ms,
    })
}

/// The operation that makes a call. `None` for a ride of an older release: only those have calls and no payment.
fn operation(object_state: &ObjectState, call: &ProviderCall) -> Option<&'static str> {
    if object_state.resource.payment.is_none() && object_state.resource.customer.is_none() {
        return None;
    }
    Some(if is_closing(call) { CallKind::Authorize.operation() } else { call.kind.operation() })
}

fn key_row(object_state: &ObjectState, key: &KeyRecord) -> KeyRow {
    let is_flagged_call = |state: &CallState| matches!(state, CallState::Settled(Settlement::NeedsReview));
    let calls = || object_state.calls.iter().filter(|call| call.key_id == key.key_id);
    let flagged_call = calls().any(|call| is_flagged_call(&call.state) || call.needs_review().is_some());
    let mut row = KeyRow {
        key_id: key.key_id,
        key_hash: key.key_hash.0.clone(),
        owner: key.owner.to_text(),
        // What it was asked for is dropped at the end; its call tells.
        operation: calls().next().and_then(|call| operation(object_state, call)).map(str::to_owned),
        status: key.lifecycle.name().to_owned(),
        recovery_point: key.recovery_point().as_str().to_owned(),
        attempts: key.attempt,
        failures: 0,
        in_doubt: 0,
        flagged: flagged_call.into(),
        response_status: None,
        wake_at_ms: None,
        created_at_ms: key.created_at_ms,
        finished_at_ms: None,
        expires_at_ms: None,
    };
    match &key.lifecycle {
        Lifecycle::Open(open) => {
            let call = object_state.unsettled_call(key.key_id);
            let in_doubt = call.is_some_and(ProviderCall::in_doubt);
            row.operation = Some(open.operation.name().to_owned());
            row.failures = open.failures;
            row.in_doubt = in_doubt.into();
            row.flagged = (flagged_call || open.is_flagged()).into();
            row.wake_at_ms = Some(open.lease.as_ref().map_or(open.resume_at_ms, |lease| lease.until_ms));
        }
        Lifecycle::Finished(finished) => {
            row.response_status = Some(finished.response.status);
            row.finished_at_ms = Some(finished.finished_at_ms);
            row.expires_at_ms = Some(finished.expires_at_ms);
        }
        Lifecycle::Expired(tombstone) => {
            row.response_status = Some(tombstone.status);
            row.finished_at_ms = Some(tombstone.finished_at_ms);
            row.expires_at_ms = Some(tombstone.expires_at_ms);
        }
    }
    row
}
