//! Giving back the money of a try that was over: canceled where it is only held, else refunded, with one call. Nobody asks
//! for it: the news of the money begins it, under a key of its own, and the alarm drives it.
//!
//! Outcomes: 200 and the try. A provider that only receives it tells later how it ended.

use serde::{Deserialize, Serialize};

use super::engine::{
    CallSpec, CallState, Context, End, KeyRecord, Lifecycle, Open, Phase, RecoveryPoint, Rows, Settlement,
};
use super::{PhaseExt, respond};
use crate::payment::id::RefundId;
use crate::payment::money::AmountMinor;
use crate::payment::tries::{self, Stage, Try};
use crate::payment::{Refund, RefundReason, RefundState, check};
use crate::providers::result::{CallKind, Found, ProviderResult};
use once::call::RetryPolicy;
use once::context::Bug;
use once::fingerprint::Fingerprint;
use once::id::{RequestId, digest};
use once::key::KeyHash;
use once::record::Channel;

/// What is to be given back.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct GiveBackRequest {
    /// The number of the try.
    pub attempt: u32,
    /// It was taken, and is refunded; else it is held, and canceled.
    pub refund: bool,
}

/// The name of its call.
pub(crate) const CALL: &str = "give_back";

/// Begins it: the alarm takes it up at once.
pub(crate) fn begin(rows: &mut Rows, attempt: u32, refund: bool, ctx: &Context) -> Result<(), Bug> {
    let first = rows.keys.first().ok_or_else(|| Bug("no key".into()))?;
    let request = GiveBackRequest { attempt, refund };
    let name = format!("give_back_{attempt}{}", if refund { "_refund" } else { "" });
    let hash =
        data_encoding::HEXLOWER.encode(&digest(&[b"give back", rows.object.as_bytes(), name.as_bytes()]));
    if rows.keys.iter().any(|key| key.key_hash.0 == hash) {
        return Ok(());
    }
    let owner = first.owner.clone();
    let key_id = rows.keys.iter().map(|key| key.key_id).max().unwrap_or(0).saturating_add(1);
    rows.keys.push(KeyRecord {
        key_id,
        key_hash: KeyHash(hash.clone()),
        owner,
        channel: Channel::Api,
        fingerprint: Fingerprint(hash),
        parameters: None,
        original_request: RequestId(name),
        created_at_ms: ctx.now_ms,
        attempt: 1,
        replays: 0,
        lifecycle: Lifecycle::Open(Open {
            operation: super::Operation::GiveBack(request),
            recovery_point: RecoveryPoint::Started,
            lease: None,
            resume_at_ms: ctx.now_ms,
            last_run_at_ms: ctx.now_ms,
            failures: 0,
        }),
    });
    if let Some(late) = tries::late_mut(rows, attempt) {
        late.stage = Stage::Begun;
    }
    rows.note(key_id, ctx.now_ms, "key_created", CALL);
    let data = serde_json::json!({ "attempt": attempt, "refund": refund });
    tries::audit(rows, "try.giving_back", data, ctx);
    Ok(())
}

/// The try that a call under this key gives back.
pub(crate) fn attempt_of(derived_key: &str, rows: &Rows) -> Option<u32> {
    let id = rows.resource.payment.as_ref()?.id;
    let is_it = |row: &&Try| {
        [false, true].into_iter().any(|refund| derived(row, &id.to_string(), refund) == derived_key)
    };
    rows.resource.tries.iter().find(is_it).map(|row| row.attempt)
}

/// The refund that gives back the money of a try, and the provider's id of it, once it has said one.
pub(crate) fn refund_of(rows: &Rows, row: &Try) -> Option<(RefundId, String)> {
    let payment = rows.resource.payment.as_ref()?;
    let derived_key = derived(row, &payment.id.to_string(), true);
    let call = rows.calls.iter().find(|call| call.derived_key == derived_key)?;
    let CallState::Settled(Settlement::Answered(reply)) = &call.state else { return None };
    let ProviderResult::Refunded { refund, .. } = &reply.result else { return None };
    let key = rows.key(call.key_id)?;
    Some((RefundId::of(rows.object, &key.key_hash.0), refund.clone()))
}

fn derived(row: &Try, payment: &str, refund: bool) -> String {
    let suffix = if refund { "_refund" } else { "" };
    row.provider.derived_key(&format!("{payment}_give_back_{}{suffix}", row.attempt))
}

/// The flow.
pub(super) fn run(request: &GiveBackRequest, phase: &mut Phase<'_>) -> Result<End, Bug> {
    let attempt = request.attempt;
    let kind = if request.refund { CallKind::Refund } else { CallKind::Void };
    let Some(settlement) = phase.settlement(CALL)? else {
        return call(request, kind, phase);
    };
    let stage = match settlement {
        Settlement::Answered(reply) => match reply.result {
            ProviderResult::Voided | ProviderResult::Refunded { settled: true, .. } => Some(Stage::GivenBack),
            ProviderResult::Received { .. } | ProviderResult::Refunded { .. } => Some(Stage::Received),
            ProviderResult::Rejected { found: Some(Found::Voided | Found::Expired), .. } => {
                Some(Stage::GivenBack)
            }
            ProviderResult::Rejected { code, .. } | ProviderResult::Declined { code, .. } => {
                tries::refused(phase.rows, attempt, kind, &code, phase.ctx)?;
                None
            }
            other => return Err(Bug(format!("giving back was answered by {other:?}"))),
        },
        Settlement::NotExecuted => {
            tries::refused(phase.rows, attempt, CallKind::Refund, "not_executed", phase.ctx)?;
            None
        }
        Settlement::NeedsReview => return Err(Bug("giving back is idempotent by key".into())),
    };
    if let Some((stage, late)) = stage.zip(tries::late_mut(phase.rows, attempt)) {
        late.stage = stage;
        if stage == Stage::GivenBack {
            let data = serde_json::json!({ "attempt": attempt });
            tries::audit(phase.rows, "try.given_back", data, phase.ctx);
        }
    }
    check::schedule(phase.rows, phase.ctx);
    let location = phase.payment()?.id.path();
    let shown = row(phase, attempt)?.to_json();
    respond(phase, 200, &location, None, &shown)
}

fn row(phase: &Phase<'_>, attempt: u32) -> Result<Try, Bug> {
    let row = phase.rows.resource.tries.iter().find(|row| row.attempt == attempt);
    row.cloned().ok_or_else(|| Bug(format!("no try {attempt}")))
}

fn call(request: &GiveBackRequest, kind: CallKind, phase: &mut Phase<'_>) -> Result<End, Bug> {
    let row = row(phase, request.attempt)?;
    let payment = row.stand_in(phase.payment()?);
    let derived_key = derived(&row, &payment.id.to_string(), request.refund);
    let amount_minor = row.late.as_ref().map_or(0, |late| late.amount_minor);
    let frozen = match kind {
        CallKind::Refund => {
            let refund = Refund {
                id: RefundId::of(phase.rows.object, &phase.key()?.key_hash.0),
                key_id: phase.key_id,
                amount: AmountMinor::new(amount_minor).unwrap_or(row.amount),
                reason: RefundReason::Duplicate,
                state: RefundState::Requested,
                provider_refund: None,
                created_at_ms: phase.ctx.now_ms,
                version: 0,
            };
            row.provider.refund(&payment, &refund, &derived_key)?
        }
        _ => row.provider.void(&payment, &derived_key)?,
    };
    Ok(End::Call(CallSpec {
        name: CALL.to_owned(),
        kind,
        provider: row.provider,
        retry_policy: RetryPolicy::IdempotentByKey,
        request: frozen,
        derived_key,
    }))
}
