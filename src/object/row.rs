//! Values and rows of SQLite, and the types that they stand for. No SQL: that is in `store`.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::storage::SqlValue;
use once::context::Bug;
use once::fingerprint::{Canonical, Fingerprint};
use once::id::{InstanceId, ObjectId, Owner, RequestId};
use once::key::KeyHash;
use once::record::{Binding, Channel, Finished, Lease, StoredResponse, Tombstone};
use payments::flows::engine::{
    CallState, KeyRecord, Lifecycle, Open, ProviderCall, RecoveryPoint, StagedJob,
};
use payments::flows::ride::{DegreesE7, Place, Ride};
use payments::payment::id::RideId;
use payments::payment::records::JobKind;
use payments::providers::Provider;
use payments::providers::result::CallKind;

pub(super) fn int(value: impl Into<u64>) -> SqlValue {
    SqlValue::Integer(i64::try_from(value.into()).unwrap_or(i64::MAX))
}

pub(super) fn text(value: impl Into<String>) -> SqlValue {
    SqlValue::Text(value.into())
}

pub(super) fn opt(value: Option<SqlValue>) -> SqlValue {
    value.unwrap_or(SqlValue::Null)
}

pub(super) fn json<T: Serialize>(value: &T) -> Result<String, Bug> {
    serde_json::to_string(value).map_err(|error| Bug(error.to_string()))
}

fn from_json<T: DeserializeOwned>(text: &str) -> Result<T, Bug> {
    // The text of the error would quote the value.
    serde_json::from_str(text).map_err(|error| {
        let (kind, line, column) = (error.classify(), error.line(), error.column());
        Bug(format!("a row that cannot be read: {kind:?} error at {line}:{column}"))
    })
}

/// An enum without data, as the bare word.
pub(super) fn json_word<T: Serialize>(value: &T) -> Result<String, Bug> {
    Ok(json(value)?.trim_matches('"').to_owned())
}

fn from_word<T: DeserializeOwned>(word: &str) -> Result<T, Bug> {
    from_json(&format!("\"{word}\""))
}

fn present<T>(value: Option<T>, column: &str) -> Result<T, Bug> {
    value.ok_or_else(|| Bug(format!("{column} is missing")))
}

#[derive(Deserialize)]
pub(super) struct KeyRow {
    key_id: u32,
    key_hash: String,
    owner: String,
    channel: String,
    fingerprint: String,
    parameters: Option<String>,
    original_request: String,
    created_at_ms: u64,
    attempt: u32,
    status: String,
    recovery_point: String,
    operation: Option<String>,
    lease_holder: Option<String>,
    lease_until_ms: Option<u64>,
    resume_at_ms: Option<u64>,
    last_run_at_ms: Option<u64>,
    failures: Option<u32>,
    response_status: Option<u16>,
    response_headers: Option<String>,
    response_body: Option<serde_bytes::ByteBuf>,
    finished_at_ms: Option<u64>,
    expires_at_ms: Option<u64>,
    replays: u32,
}

impl KeyRow {
    pub(super) fn read(self) -> Result<KeyRecord, Bug> {
        let lifecycle = match self.status.as_str() {
            "open" => Lifecycle::Open(Open {
                operation: from_json(&present(self.operation, "operation")?)?,
                recovery_point: present(RecoveryPoint::parse(&self.recovery_point), "recovery_point")?,
                lease: match self.lease_holder {
                    Some(holder) => Some(Lease {
                        holder: InstanceId(holder),
                        until_ms: present(self.lease_until_ms, "lease_until_ms")?,
                    }),
                    None => None,
                },
                resume_at_ms: present(self.resume_at_ms, "resume_at_ms")?,
                last_run_at_ms: present(self.last_run_at_ms, "last_run_at_ms")?,
                failures: present(self.failures, "failures")?,
            }),
            "finished" => Lifecycle::Finished(Finished {
                response: StoredResponse {
                    status: present(self.response_status, "response_status")?,
                    headers: from_json(&present(self.response_headers, "response_headers")?)?,
                    body: present(self.response_body, "response_body")?.into_vec(),
                },
                finished_at_ms: present(self.finished_at_ms, "finished_at_ms")?,
                expires_at_ms: present(self.expires_at_ms, "expires_at_ms")?,
            }),
            "expired" => Lifecycle::Expired(Tombstone {
                status: present(self.response_status, "response_status")?,
                finished_at_ms: present(self.finished_at_ms, "finished_at_ms")?,
                expires_at_ms: present(self.expires_at_ms, "expires_at_ms")?,
            }),
            other => return Err(Bug(format!("a key of status {other}"))),
        };
        Ok(KeyRecord {
            key_id: self.key_id,
            key_hash: KeyHash(self.key_hash),
            owner: present(Owner::from_text(&self.owner), "owner")?,
            channel: from_word::<Channel>(&self.channel)?,
            fingerprint: Fingerprint(self.fingerprint),
            parameters: self.parameters.map(Canonical),
            original_request: RequestId(self.original_request),
            created_at_ms: self.created_at_ms,
            attempt: self.attempt,
            replays: self.replays,
            lifecycle,
        })
    }
}

#[derive(Deserialize)]
pub(super) struct BindingRow {
    key_hash: String,
    owner: String,
    fingerprint: String,
    parameters: Option<String>,
    object: String,
    bound_at_ms: u64,
}

impl BindingRow {
    pub(super) fn read(self) -> Result<Binding, Bug> {
        Ok(Binding {
            key_hash: KeyHash(self.key_hash),
            owner: present(Owner::from_text(&self.owner), "owner")?,
            fingerprint: Fingerprint(self.fingerprint),
            parameters: self.parameters.map(Canonical),
            object: present(ObjectId::from_hex(&self.object), "object")?,
            bound_at_ms: self.bound_at_ms,
        })
    }
}

/// A payment or a refund: all of it is in `details`.
#[derive(Deserialize)]
pub(super) struct DetailsRow {
    details: String,
}

impl DetailsRow {
    pub(super) fn read<T: DeserializeOwned>(self) -> Result<T, Bug> {
        from_json(&self.details)
    }
}

#[derive(Deserialize)]
pub(super) struct RideRow {
    ride_id: String,
    origin_lat_e7: i32,
    origin_lon_e7: i32,
    target_lat_e7: i32,
    target_lon_e7: i32,
    amount_minor: u32,
    state: String,
    created_at_ms: u64,
    erased_at_ms: Option<u64>,
}

impl RideRow {
    pub(super) fn read(self) -> Result<Ride, Bug> {
        let place = |lat, lon| Place { lat: DegreesE7(lat), lon: DegreesE7(lon) };
        Ok(Ride {
            id: present(RideId::parse(&self.ride_id), "ride_id")?,
            origin: place(self.origin_lat_e7, self.origin_lon_e7),
            target: place(self.target_lat_e7, self.target_lon_e7),
            amount_minor: self.amount_minor,
            state: from_json(&self.state)?,
            created_at_ms: self.created_at_ms,
            erased_at_ms: self.erased_at_ms,
        })
    }
}

#[derive(Deserialize)]
pub(super) struct CallRow {
    call_id: u32,
    key_id: u32,
    name: String,
    kind: String,
    provider: String,
    semantics: String,
    derived_key: String,
    request: String,
    status: String,
    settlement: Option<String>,
    sends: u32,
    failures: u32,
    first_sent_at_ms: Option<u64>,
    last_sent_at_ms: Option<u64>,
    next_try_at_ms: u64,
    maybe_executed: u8,
    answer_is_stored: u8,
    look_up: Option<String>,
    evidence: Option<String>,
}

impl CallRow {
    pub(super) fn read(self) -> Result<ProviderCall, Bug> {
        let state = match self.status.as_str() {
            "frozen" => CallState::Frozen,
            "in_flight" => CallState::InFlight,
            "unknown" => CallState::Unknown,
            "settled" => CallState::Settled(from_json(&present(self.settlement, "settlement")?)?),
            other => return Err(Bug(format!("a call of status {other}"))),
        };
        Ok(ProviderCall {
            call_id: self.call_id,
            key_id: self.key_id,
            name: self.name,
            kind: present(CallKind::parse(&self.kind), "kind")?,
            provider: present(Provider::parse(&self.provider), "provider")?,
            retry_policy: from_word(&self.semantics)?,
            derived_key: self.derived_key,
            request: from_json(&self.request)?,
            state,
            sends: self.sends,
            failures: self.failures,
            first_sent_at_ms: self.first_sent_at_ms,
            last_sent_at_ms: self.last_sent_at_ms,
            next_try_at_ms: self.next_try_at_ms,
            maybe_executed: self.maybe_executed != 0,
            answer_is_stored: self.answer_is_stored != 0,
            look_up: self.look_up.as_deref().map(from_json).transpose()?,
            evidence: self.evidence.as_deref().map(from_json).transpose()?.unwrap_or_default(),
        })
    }
}

#[derive(Deserialize)]
pub(super) struct JobRow {
    job_id: String,
    kind: String,
    payload: String,
    staged_at_ms: u64,
    sends: u32,
    next_at_ms: u64,
}

impl JobRow {
    pub(super) fn read(self) -> Result<StagedJob, Bug> {
        Ok(StagedJob {
            kind: present(JobKind::parse(&self.kind), "kind")?,
            payload: from_json(&self.payload)?,
            job_id: self.job_id,
            staged_at_ms: self.staged_at_ms,
            sends: self.sends,
            next_at_ms: self.next_at_ms,
        })
    }
}

#[derive(Deserialize)]
pub(super) struct ProjectionRow {
    pub(super) version: u64,
    pub(super) audit_through: u64,
}
