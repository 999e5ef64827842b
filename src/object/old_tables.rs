//! Objects as releases before the state was one row have left them: eleven tables, of which the oldest releases had fewer, with fewer columns.
//! They are read once, and dropped.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use once::context::Bug;
use once::fingerprint::{Canonical, Fingerprint};
use once::id::{InstanceId, ObjectId, Owner, RequestId};
use once::key::KeyHash;
use once::object_state::TimelineEntry;
use once::record::{Binding, Channel, Finished, Lease, StoredResponse, Tombstone};
use once::state;
use once_object::storage::Storage;
use once_object::store::Adopted;
use payments::engine::{
    CallState, KeyRecord, Lifecycle, ObjectState, Open, Payments, ProviderCall, RecoveryPoint, StagedJob,
};
use payments::payment::order_link::OrderLinks;
use payments::payment::records::JobKind;
use payments::payment::result::CallKind;
use payments::providers::Provider;
use payments::transitions::try_rows;

/// The tables, each after those that refer to it.
const TABLES: [&str; 13] = [
    "foreign_calls",
    "refunds",
    "idempotency_keys",
    "rides",
    "audit_records",
    "staged_jobs",
    "timeline",
    "key_bindings",
    "payments",
    "projection",
    "webhook_events",
    "order_links",
    "tries",
];

/// Reads an object of those releases: `None` if there is none.
pub fn adopt<S: Storage>(storage: &S, object: ObjectId) -> Result<Option<Adopted<Payments>>, Bug> {
    let tables = Tables { storage, names: names(storage)? };
    if !tables.names.iter().any(|name| name == "schema_version") {
        return Ok(None);
    }
    let audit = tables.audit()?;
    let mut object_state = tables.rows(object)?;
    object_state.resource.audit_newest =
        audit.iter().filter_map(|record| record.get("audit_id")?.as_u64()).max().unwrap_or(0);
    // Those of payments of before have no rows yet.
    try_rows::complete(&mut object_state);
    let select = "SELECT key_id, at_ms, attempt, event, detail FROM timeline ORDER BY entry_id";
    let lines: Vec<TimelineEntry> = tables.all("timeline", select)?;
    let audit = audit.into_iter().map(|record| json!({ "audit": [record] }));
    let events = tables.events()?.into_iter().map(|event| json!({ "events": [event] }));
    let mut dropped: Vec<String> = TABLES.iter().map(|name| (*name).to_owned()).collect();
    dropped.retain(|name| tables.names.contains(name));
    dropped.push("schema_version".to_owned());
    Ok(Some(Adopted { object_state, lines, facts: audit.chain(events).collect(), tables: dropped }))
}

fn names<S: Storage>(storage: &S) -> Result<Vec<String>, Bug> {
    #[derive(Deserialize)]
    struct Table {
        name: String,
    }
    let tables = storage.query::<Table>("SELECT name FROM sqlite_master WHERE type = 'table'", vec![])?;
    Ok(tables.into_iter().map(|table| table.name).collect())
}

struct Tables<'a, S> {
    storage: &'a S,
    names: Vec<String>,
}

impl<S: Storage> Tables<'_, S> {
    /// The rows of a table; none where an older release had no such table.
    fn all<T: DeserializeOwned>(&self, table: &str, select: &str) -> Result<Vec<T>, Bug> {
        if self.names.iter().any(|name| name == table) {
            self.storage.query(select, vec![])
        } else {
            Ok(Vec::new())
        }
    }

    fn details<T: DeserializeOwned>(&self, table: &str, order: &str) -> Result<Vec<T>, Bug> {
        let select = format!("SELECT details FROM {table} ORDER BY {order}");
        self.all::<DetailsRow>(table, &select)?.into_iter().map(DetailsRow::read).collect()
    }

    fn rows(&self, object: ObjectId) -> Result<ObjectState, Bug> {
        let mut object_state = ObjectState::empty(object);
        for row in self.all::<KeyRow>("idempotency_keys", "SELECT * FROM idempotency_keys ORDER BY key_id")? {
            object_state.keys.push(row.read()?);
        }
        for row in self.all::<CallRow>("foreign_calls", "SELECT * FROM foreign_calls ORDER BY call_id")? {
            object_state.calls.push(row.read()?);
        }
        for row in self.all::<BindingRow>("key_bindings", "SELECT * FROM key_bindings ORDER BY rowid")? {
            object_state.bindings.push(row.read()?);
        }
        for row in self.all::<JobRow>("staged_jobs", "SELECT * FROM staged_jobs ORDER BY rowid")? {
            object_state.jobs.push(row.read()?);
        }
        let resource = &mut object_state.resource;
        resource.payment = self.details("payments", "rowid")?.into_iter().next();
        resource.refunds = self.details("refunds", "rowid")?;
        resource.tries = self.details("tries", "attempt")?;
        let links = "SELECT revision, content, ended_through FROM order_links";
        resource.links = self.all::<OrderLinks>("order_links", links)?.into_iter().next();
        let ride = "SELECT json_object('id', ride_id, 'origin', json_object('lat', origin_lat_e7, 'lon', origin_lon_e7),
            'target', json_object('lat', target_lat_e7, 'lon', target_lon_e7), 'amount_minor', amount_minor, 'state', json(state),
            'created_at_ms', created_at_ms) AS details FROM rides";
        resource.retired =
            self.all::<DetailsRow>("rides", ride)?.into_iter().next().map(DetailsRow::read).transpose()?;
        let projection = "SELECT version, audit_through FROM projection";
        if let Some(row) = self.all::<ProjectionRow>("projection", projection)?.first() {
            (resource.version, resource.audit_through) = (row.version, row.audit_through);
        }
        Ok(object_state)
    }

    fn audit(&self) -> Result<Vec<Value>, Bug> {
        #[derive(Deserialize)]
        struct Record {
            audit_id: u64,
            at_ms: u64,
            actor: String,
            action: String,
            subject: String,
            data: String,
        }
        let read = |record: Record| {
            let Record { audit_id, at_ms, actor, action, subject, data } = record;
            let data: Value = from_json(&data)?;
            Ok(json!({
                "audit_id": audit_id, "at_ms": at_ms, "actor": actor, "action": action, "subject": subject, "data": data,
            }))
        };
        let select =
            "SELECT audit_id, at_ms, actor, action, subject, data FROM audit_records ORDER BY audit_id";
        self.all::<Record>("audit_records", select)?.into_iter().map(read).collect()
    }

    /// The events; the oldest releases had their id alone for a key, later ones the provider before it.
    fn events(&self) -> Result<Vec<Value>, Bug> {
        #[derive(Deserialize)]
        struct Event {
            event_id: String,
            provider: String,
            kind: String,
            received_at_ms: u64,
        }
        let read = |event: Event| {
            let Event { event_id, provider, kind, received_at_ms } = event;
            let its_own = event_id.strip_prefix(&format!("{provider}:")).unwrap_or(&event_id).to_owned();
            json!({ "event_id": its_own, "provider": provider, "kind": kind, "received_at_ms": received_at_ms })
        };
        let select = "SELECT event_id, provider, kind, received_at_ms FROM webhook_events ORDER BY received_at_ms, rowid";
        Ok(self.all::<Event>("webhook_events", select)?.into_iter().map(read).collect())
    }
}

fn from_json<T: DeserializeOwned>(text: &str) -> Result<T, Bug> {
    state::parsed(text)
}

/// An enum without data, from the bare word.
fn from_word<T: DeserializeOwned>(word: &str) -> Result<T, Bug> {
    from_json(&format!("\"{word}\""))
}

fn present<T>(value: Option<T>, column: &str) -> Result<T, Bug> {
    value.ok_or_else(|| Bug(format!("{column} is missing")))
}

#[derive(Deserialize)]
struct KeyRow {
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
    #[serde(default)]
    replays: u32,
}

impl KeyRow {
    fn read(self) -> Result<KeyRecord, Bug> {
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
                broken_off: 0,
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
            trace: None,
            lifecycle,
        })
    }
}

#[derive(Deserialize)]
struct BindingRow {
    key_hash: String,
    owner: String,
    fingerprint: String,
    parameters: Option<String>,
    object: String,
    bound_at_ms: u64,
}

impl BindingRow {
    fn read(self) -> Result<Binding, Bug> {
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
struct DetailsRow {
    details: String,
}

impl DetailsRow {
    fn read<T: DeserializeOwned>(self) -> Result<T, Bug> {
        from_json(&self.details)
    }
}

#[derive(Deserialize)]
struct CallRow {
    call_id: u32,
    key_id: u32,
    name: String,
    /// Those of before there were others are of rides.
    kind: Option<String>,
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
    #[serde(default)]
    evidence: Option<String>,
}

impl CallRow {
    fn read(self) -> Result<ProviderCall, Bug> {
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
            kind: match &self.kind {
                Some(kind) => from_word(kind)?,
                None => CallKind::Authorize,
            },
            provider: present(Provider::parse(&self.provider), "provider")?,
            retry_policy: from_word(&self.semantics)?,
            provider_key: self.derived_key,
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
struct JobRow {
    job_id: String,
    kind: String,
    payload: String,
    staged_at_ms: u64,
    #[serde(default)]
    sends: u32,
    #[serde(default)]
    next_at_ms: u64,
}

impl JobRow {
    fn read(self) -> Result<StagedJob, Bug> {
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
struct ProjectionRow {
    version: u64,
    audit_through: u64,
}
