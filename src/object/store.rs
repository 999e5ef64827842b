//! All SQL of an object. [`Store::transaction`] loads the rows, lets a pure function change them, and stores what
//! changed together with the alarm: all of it, or nothing.
//!
//! What it stores them in is a [`Storage`]: the runtime's in the Worker, SQLite on the host in the simulation.

use std::cell::Cell;

use serde::Deserialize;

use super::row::{
    BindingRow, CallRow, DetailsRow, JobRow, KeyRow, ProjectionRow, RideRow, int, json, json_word, opt, text,
};
use super::schema::{MIGRATIONS, VERSION_TABLE};
use super::storage::{SqlValue, Storage};
use crate::readmodel::projection;
use messages::inspection::EventSight;
use messages::snapshot::AuditRow;
use once::alarm::{KnownAlarm, alarm_to_set};
use once::context::Bug;
use once::id::ObjectId;
use once::record::Binding;
use once::rows::TimelineEntry;
use payments::flows::engine::{
    CallState, Context, Evidence, KeyRecord, Lifecycle, NewRows, ProviderCall, Rows, StagedJob,
};
use payments::flows::order_link::OrderLinks;
use payments::flows::ride::Ride;
use payments::payment::tries::{self, Try};
use payments::payment::{Payment, Refund, refunded_minor};
use payments::providers::Provider;
use runtime::metrics;

/// The events that an object knows: the newest.
pub const EVENTS_NEWEST: u32 = 500;

/// The lines of the timeline that are kept: the first ones and the newest.
const TIMELINE_FIRST: i64 = 50;
const TIMELINE_NEWEST: i64 = 150;

/// The key of an event: its id is unique at its provider only.
fn event_key(provider: Provider, event_id: &str) -> String {
    format!("{}:{event_id}", provider.as_str())
}

/// An object's rows and its alarm, as one incarnation of it sees them.
pub struct Store<S> {
    object: ObjectId,
    storage: S,
    /// The tables are up to date.
    ready: Cell<bool>,
    /// What this incarnation knows about the alarm.
    alarm: Cell<KnownAlarm>,
}

impl<S: Storage> Store<S> {
    /// Opens the storage of an object. Nothing is written yet.
    pub const fn new(object: ObjectId, storage: S) -> Self {
        Self { object, storage, ready: Cell::new(false), alarm: Cell::new(KnownAlarm::Unknown) }
    }

    /// The object whose storage it is.
    pub const fn object(&self) -> ObjectId {
        self.object
    }

    /// Brings the tables up to date, once in each incarnation and not before something is to be written: an object that
    /// was only asked whether it exists keeps nothing.
    fn migrate(&self) -> Result<(), Bug> {
        if self.ready.get() {
            return Ok(());
        }
        let version = self.version()?;
        if version < MIGRATIONS.len() {
            self.storage.atomically(|| {
                self.storage.exec(VERSION_TABLE, vec![])?;
                for statement in MIGRATIONS.iter().skip(version).flat_map(|statements| statements.iter()) {
                    self.storage.exec(statement, vec![])?;
                }
                let version = int(MIGRATIONS.len() as u64);
                self.storage
                    .exec("INSERT OR REPLACE INTO schema_version (id, version) VALUES (1, ?)", vec![version])
            })?;
        }
        self.ready.set(true);
        Ok(())
    }

    /// The version of the tables; 0 before there are any.
    fn version(&self) -> Result<usize, Bug> {
        #[derive(Deserialize)]
        struct Count {
            count: usize,
        }
        #[derive(Deserialize)]
        struct Version {
            version: usize,
        }
        let exists =
            "SELECT COUNT(*) AS count FROM sqlite_master WHERE type = 'table' AND name = 'schema_version'";
        if self.storage.query::<Count>(exists, vec![])?.first().is_none_or(|row| row.count == 0) {
            return Ok(0);
        }
        let rows = self.storage.query::<Version>("SELECT version FROM schema_version", vec![])?;
        Ok(rows.first().map_or(0, |row| row.version))
    }

    /// One atomic phase. If `change` fails nothing is stored, and its error is given back.
    pub fn transaction<T, E: From<Bug>>(
        &self,
        ctx: &Context,
        change: impl FnOnce(&mut Rows) -> Result<T, E>,
    ) -> Result<T, E> {
        self.migrate()?;
        let mut change = Some(change);
        let mut result: Option<Result<T, E>> = None;
        let mut alarm = self.alarm.get();
        let mut moves = Vec::new();
        let committed = self.storage.atomically(|| {
            let change = change.take().ok_or_else(|| Bug("a transaction ran twice".into()))?;
            let before = self.load()?;
            let mut after = before.clone();
            match change(&mut after) {
                Ok(value) => {
                    projection::stage_projection(&before, &mut after, ctx);
                    self.save(&before, &after, ctx, &mut alarm)?;
                    moves = metrics::moves(&before, &after);
                    result = Some(Ok(value));
                    Ok(())
                }
                Err(error) => {
                    result = Some(Err(error));
                    Err(Bug("rolled back".into()))
                }
            }
        });
        match (committed, result) {
            (Ok(()), Some(result)) => {
                self.alarm.set(alarm);
                moves.into_iter().for_each(|(thing, from, to)| metrics::moved(thing, from, to));
                result
            }
            (Err(_), Some(Err(error))) => Err(error),
            (Err(bug), _) => Err(bug.into()),
            (Ok(()), None) => Err(Bug("a transaction did not run".into()).into()),
        }
    }

    /// Reads the rows without changing anything. `None` if nothing was ever written.
    pub fn read(&self) -> Result<Option<Rows>, Bug> {
        if !self.ready.get() {
            if self.version()? == 0 {
                return Ok(None);
            }
            self.migrate()?;
        }
        self.load().map(Some)
    }

    /// The timeline of all keys, oldest first. Only where something was written: see [`read`](Self::read).
    pub fn timeline(&self) -> Result<Vec<TimelineEntry>, Bug> {
        self.storage
            .query("SELECT key_id, at_ms, attempt, event, detail FROM timeline ORDER BY entry_id", vec![])
    }

    /// The audit records after that one, oldest first: at most `limit`.
    pub fn audit_after(&self, audit_id: u64, limit: u32) -> Result<Vec<AuditRow>, Bug> {
        self.storage.query(
            "SELECT audit_id, at_ms, actor, action, subject, data FROM audit_records WHERE audit_id > ? ORDER BY audit_id LIMIT ?",
            vec![int(audit_id), int(limit)],
        )
    }

    /// The newest audit record; 0 if there is none.
    pub fn audit_newest(&self) -> Result<u64, Bug> {
        #[derive(Deserialize)]
        struct Newest {
            newest: u64,
        }
        let sql = "SELECT coalesce(max(audit_id), 0) AS newest FROM audit_records";
        Ok(self.storage.query::<Newest>(sql, vec![])?.first().map_or(0, |row| row.newest))
    }

    /// The events that were taken in, oldest first.
    pub fn events(&self) -> Result<Vec<EventSight>, Bug> {
        self.storage.query(
            "SELECT CASE WHEN substr(event_id, 1, length(provider) + 1) = provider || ':' THEN substr(event_id, length(provider) + 2)
                ELSE event_id END AS event_id, provider, kind, received_at_ms
             FROM webhook_events ORDER BY received_at_ms, rowid",
            vec![],
        )
    }

    /// Whether an event was taken in. Those of before have the provider's id alone as their key.
    pub fn knows_event(&self, provider: Provider, event_id: &str) -> Result<bool, Bug> {
        #[derive(Deserialize)]
        struct Known {}
        let sql = "SELECT event_id FROM webhook_events WHERE provider = ? AND event_id IN (?, ?)";
        let values = vec![text(provider.as_str()), text(event_key(provider, event_id)), text(event_id)];
        Ok(!self.storage.query::<Known>(sql, values)?.is_empty())
    }

    /// How many audit records tell of events that a person must see.
    pub fn records_of_events(&self) -> Result<u64, Bug> {
        #[derive(Deserialize)]
        struct Count {
            count: u64,
        }
        let sql = "SELECT COUNT(*) AS count FROM audit_records WHERE action IN ('webhook.contradicts', 'webhook.alert')";
        Ok(self.storage.query::<Count>(sql, vec![])?.first().map_or(0, |row| row.count))
    }

    /// What an event said that cannot be, if it did. Records of before do not name the provider.
    pub fn contradiction(&self, provider: Provider, event_id: &str) -> Result<Option<String>, Bug> {
        #[derive(Deserialize)]
        struct Contradiction {
            detail: String,
        }
        let sql = "SELECT data ->> '$.detail' AS detail FROM audit_records
             WHERE action IN ('webhook.contradicts', 'webhook.alert') AND data ->> '$.event' = ?
             AND coalesce(data ->> '$.provider', ?) = ?";
        let provider = provider.as_str();
        let values = vec![text(event_id), text(provider), text(provider)];
        let found = self.storage.query::<Contradiction>(sql, values)?;
        Ok(found.into_iter().next().map(|found| found.detail))
    }

    /// Sets the alarm outside a transaction: the way out when even the transaction fails.
    pub fn force_alarm(&self, at_ms: u64) {
        self.alarm.set(KnownAlarm::Gone);
        // A failure here is a failure of the storage itself: only a retry of the client wakes the object then.
        if self.storage.set_alarm(at_ms).is_ok() {
            self.alarm.set(KnownAlarm::At(at_ms));
        }
    }

    /// The alarm has fired: none is set any more.
    pub fn alarm_fired(&self) {
        self.alarm.set(KnownAlarm::Gone);
    }

    fn load(&self) -> Result<Rows, Bug> {
        let mut rows = Rows::empty(self.object);
        for row in self.storage.query::<KeyRow>("SELECT * FROM idempotency_keys ORDER BY key_id", vec![])? {
            rows.keys.push(row.read()?);
        }
        for row in self.storage.query::<CallRow>("SELECT * FROM foreign_calls ORDER BY call_id", vec![])? {
            rows.calls.push(row.read()?);
        }
        for row in self.storage.query::<BindingRow>("SELECT * FROM key_bindings ORDER BY rowid", vec![])? {
            rows.bindings.push(row.read()?);
        }
        rows.resource.payment = match self
            .storage
            .query::<DetailsRow>("SELECT details FROM payments LIMIT 1", vec![])?
            .into_iter()
            .next()
        {
            Some(row) => Some(row.read()?),
            None => None,
        };
        for row in self.storage.query::<DetailsRow>("SELECT details FROM refunds ORDER BY rowid", vec![])? {
            rows.resource.refunds.push(row.read()?);
        }
        rows.resource.links = self
            .storage
            .query::<OrderLinks>("SELECT revision, content, ended_through FROM order_links", vec![])?
            .into_iter()
            .next();
        for row in self.storage.query::<DetailsRow>("SELECT details FROM tries ORDER BY attempt", vec![])? {
            rows.resource.tries.push(row.read()?);
        }
        // Those of payments of before have no rows yet.
        tries::complete(&mut rows);
        rows.resource.ride =
            match self.storage.query::<RideRow>("SELECT * FROM rides LIMIT 1", vec![])?.into_iter().next() {
                Some(row) => Some(row.read()?),
                None => None,
            };
        for row in self.storage.query::<JobRow>("SELECT * FROM staged_jobs ORDER BY rowid", vec![])? {
            rows.jobs.push(row.read()?);
        }
        if let Some(row) = self
            .storage
            .query::<ProjectionRow>("SELECT version, audit_through FROM projection", vec![])?
            .first()
        {
            (rows.resource.version, rows.resource.audit_through) = (row.version, row.audit_through);
        }
        Ok(rows)
    }

    fn save(&self, before: &Rows, after: &Rows, ctx: &Context, alarm: &mut KnownAlarm) -> Result<(), Bug> {
        for key in after.keys.iter().filter(|key| !before.keys.contains(key)) {
            match before.key(key.key_id) {
                Some(old) if *key == (KeyRecord { replays: key.replays, ..old.clone() }) => {
                    self.save_replays(key)?;
                }
                _ => self.save_key(key)?,
            }
        }
        for binding in after.bindings.iter().filter(|binding| !before.bindings.contains(binding)) {
            self.save_binding(binding)?;
        }
        if let Some(payment) = after.resource.payment.as_ref() {
            let is_same = after.resource.payment == before.resource.payment
                && after.resource.refunds == before.resource.refunds;
            if !is_same {
                self.save_payment(payment, &after.resource.refunds)?;
            }
        }
        for refund in after.resource.refunds.iter().filter(|refund| !before.resource.refunds.contains(refund))
        {
            self.save_refund(refund)?;
        }
        for row in after.resource.tries.iter().filter(|row| !before.resource.tries.contains(row)) {
            self.save_try(row)?;
        }
        if let Some(ride) =
            after.resource.ride.as_ref().filter(|_| after.resource.ride != before.resource.ride)
        {
            self.save_ride(ride)?;
        }
        if let Some(links) =
            after.resource.links.as_ref().filter(|_| after.resource.links != before.resource.links)
        {
            self.save_links(links)?;
        }
        for call in after.calls.iter().filter(|call| !before.calls.contains(call)) {
            self.save_call(call)?;
        }
        self.save_jobs(before, after)?;
        self.append(&after.appended)?;
        let Some(at_ms) = alarm_to_set(before, after, *alarm, ctx) else {
            return Ok(());
        };
        self.storage.set_alarm(at_ms)?;
        *alarm = KnownAlarm::At(at_ms);
        Ok(())
    }

    fn save_key(&self, key: &KeyRecord) -> Result<(), Bug> {
        let (open, finished, tombstone) = match &key.lifecycle {
            Lifecycle::Open(open) => (Some(open), None, None),
            Lifecycle::Finished(finished) => (None, Some(finished), None),
            Lifecycle::Expired(tombstone) => (None, None, Some(tombstone)),
        };
        let lease = open.and_then(|o| o.lease.as_ref());
        let response = finished.map(|f| &f.response);
        self.storage.exec(
            "INSERT OR REPLACE INTO idempotency_keys (key_id, key_hash, owner, channel, fingerprint, parameters,
                original_request, created_at_ms, attempt, status, recovery_point, operation, lease_holder,
                lease_until_ms, resume_at_ms, last_run_at_ms, failures, response_status, response_headers,
                response_body, finished_at_ms, expires_at_ms, replays)
             VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
            vec![
                int(key.key_id),
                text(&key.key_hash.0),
                text(key.owner.to_text()),
                text(json_word(&key.channel)?),
                text(&key.fingerprint.0),
                opt(key.parameters.as_ref().map(|p| text(&p.0))),
                text(&key.original_request.0),
                int(key.created_at_ms),
                int(key.attempt),
                text(key.lifecycle.name()),
                text(key.recovery_point().as_str()),
                opt(open.map(|o| json(&o.operation)).transpose()?.map(text)),
                opt(lease.map(|l| text(&l.holder.0))),
                opt(lease.map(|l| int(l.until_ms))),
                opt(open.map(|o| int(o.resume_at_ms))),
                opt(open.map(|o| int(o.last_run_at_ms))),
                opt(open.map(|o| int(o.failures))),
                opt(response.map(|r| int(r.status)).or_else(|| tombstone.map(|t| int(t.status)))),
                opt(response.map(|r| json(&r.headers)).transpose()?.map(text)),
                opt(response.map(|r| SqlValue::Blob(r.body.clone()))),
                opt(finished.map(|f| int(f.finished_at_ms)).or_else(|| tombstone.map(|t| int(t.finished_at_ms)))),
                opt(finished.map(|f| int(f.expires_at_ms)).or_else(|| tombstone.map(|t| int(t.expires_at_ms)))),
                int(key.replays),
            ],
        )
    }

    /// A replay does not write the stored response anew.
    fn save_replays(&self, key: &KeyRecord) -> Result<(), Bug> {
        self.storage.exec(
            "UPDATE idempotency_keys SET replays = ? WHERE key_id = ?",
            vec![int(key.replays), int(key.key_id)],
        )
    }

    fn save_binding(&self, binding: &Binding) -> Result<(), Bug> {
        self.storage.exec(
            "INSERT OR REPLACE INTO key_bindings (key_hash, owner, fingerprint, parameters, object, bound_at_ms)
             VALUES (?,?,?,?,?,?)",
            vec![
                text(&binding.key_hash.0),
                text(binding.owner.to_text()),
                text(&binding.fingerprint.0),
                opt(binding.parameters.as_ref().map(|p| text(&p.0))),
                text(binding.object.to_hex()),
                int(binding.bound_at_ms),
            ],
        )
    }

    fn save_payment(&self, payment: &Payment, refunds: &[Refund]) -> Result<(), Bug> {
        self.storage.exec(
            "INSERT OR REPLACE INTO payments (payment_id, amount_minor, captured_minor, refunded_minor, currency, status,
                provider, provider_payment, order_id, details, created_at_ms)
             VALUES (?,?,?,?,?,?,?,?,?,?,?)",
            vec![
                text(payment.id.to_string()),
                int(payment.amount.get()),
                // A capture that has failed afterwards leaves what was given back of it.
                int(payment.captured_minor().max(refunded_minor(refunds))),
                int(refunded_minor(refunds)),
                text(payment.currency.as_str()),
                text(payment.status()),
                text(payment.provider.as_str()),
                opt(payment.provider_payment.as_ref().map(text)),
                opt(payment.order_id.as_ref().map(text)),
                text(json(payment)?),
                int(payment.created_at_ms),
            ],
        )
    }

    fn save_refund(&self, refund: &Refund) -> Result<(), Bug> {
        self.storage.exec(
            "INSERT INTO refunds (refund_id, key_id, amount_minor, status, details, created_at_ms) VALUES (?,?,?,?,?,?)
             ON CONFLICT (refund_id) DO UPDATE SET status = excluded.status, details = excluded.details",
            vec![
                text(&refund.id.0),
                int(refund.key_id),
                int(refund.amount.get()),
                text(refund.status()),
                text(json(refund)?),
                int(refund.created_at_ms),
            ],
        )
    }

    fn save_links(&self, links: &OrderLinks) -> Result<(), Bug> {
        self.storage.exec(
            "INSERT OR REPLACE INTO order_links (id, revision, content, ended_through) VALUES (1, ?, ?, ?)",
            vec![int(links.revision), text(&links.content), opt(links.ended_through.map(int))],
        )
    }

    fn save_try(&self, row: &Try) -> Result<(), Bug> {
        self.storage.exec(
            "INSERT OR REPLACE INTO tries (attempt, provider, provider_payment, derived_key, status, details)
             VALUES (?,?,?,?,?,?)",
            vec![
                int(row.attempt),
                text(row.provider.as_str()),
                opt(row.provider_payment.as_ref().map(text)),
                text(&row.derived_key),
                text(&row.status),
                text(json(row)?),
            ],
        )
    }

    fn save_ride(&self, ride: &Ride) -> Result<(), Bug> {
        self.storage.exec(
            "INSERT OR REPLACE INTO rides (ride_id, origin_lat_e7, origin_lon_e7, target_lat_e7, target_lon_e7,
                amount_minor, state, created_at_ms, erased_at_ms)
             VALUES (?,?,?,?,?,?,?,?,?)",
            vec![
                text(ride.id.to_string()),
                SqlValue::Integer(ride.origin.lat.0.into()),
                SqlValue::Integer(ride.origin.lon.0.into()),
                SqlValue::Integer(ride.target.lat.0.into()),
                SqlValue::Integer(ride.target.lon.0.into()),
                int(ride.amount_minor),
                text(json(&ride.state)?),
                int(ride.created_at_ms),
                opt(ride.erased_at_ms.map(int)),
            ],
        )
    }

    fn save_call(&self, call: &ProviderCall) -> Result<(), Bug> {
        let settlement = match &call.state {
            CallState::Frozen | CallState::InFlight | CallState::Unknown => None,
            CallState::Settled(settlement) => Some(json(settlement)?),
        };
        self.storage.exec(
            "INSERT INTO foreign_calls (call_id, key_id, name, kind, provider, semantics, derived_key, request, status,
                settlement, sends, failures, first_sent_at_ms, last_sent_at_ms, next_try_at_ms, maybe_executed,
                answer_is_stored, look_up, evidence)
             VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)
             ON CONFLICT (call_id) DO UPDATE SET request = excluded.request, status = excluded.status,
                settlement = excluded.settlement, sends = excluded.sends, failures = excluded.failures,
                first_sent_at_ms = excluded.first_sent_at_ms, last_sent_at_ms = excluded.last_sent_at_ms,
                next_try_at_ms = excluded.next_try_at_ms, maybe_executed = excluded.maybe_executed,
                answer_is_stored = excluded.answer_is_stored, look_up = excluded.look_up,
                evidence = excluded.evidence",
            vec![
                int(call.call_id),
                int(call.key_id),
                text(&call.name),
                text(call.kind.as_str()),
                text(call.provider.as_str()),
                text(json_word(&call.retry_policy)?),
                text(&call.derived_key),
                text(json(&call.request)?),
                text(call.state.name()),
                opt(settlement.map(text)),
                int(call.sends),
                int(call.failures),
                opt(call.first_sent_at_ms.map(int)),
                opt(call.last_sent_at_ms.map(int)),
                int(call.next_try_at_ms),
                int(call.maybe_executed),
                int(call.answer_is_stored),
                opt(call.look_up.as_ref().map(json).transpose()?.map(text)),
                opt((call.evidence != Evidence::default()).then(|| json(&call.evidence)).transpose()?.map(text)),
            ],
        )
    }

    fn save_jobs(&self, before: &Rows, after: &Rows) -> Result<(), Bug> {
        for job in &before.jobs {
            match after.jobs.iter().find(|kept| kept.job_id == job.job_id) {
                None => {
                    self.storage.exec("DELETE FROM staged_jobs WHERE job_id = ?", vec![text(&job.job_id)])?
                }
                Some(kept) if kept == job => {}
                Some(kept) => self.storage.exec(
                    "UPDATE staged_jobs SET sends = ?, next_at_ms = ? WHERE job_id = ?",
                    vec![int(kept.sends), int(kept.next_at_ms), text(&kept.job_id)],
                )?,
            }
        }
        if (before.resource.version, before.resource.audit_through)
            == (after.resource.version, after.resource.audit_through)
        {
            return Ok(());
        }
        self.storage.exec(
            "INSERT OR REPLACE INTO projection (id, version, audit_through) VALUES (1, ?, ?)",
            vec![int(after.resource.version), int(after.resource.audit_through)],
        )
    }

    fn insert_job(&self, job: &StagedJob) -> Result<(), Bug> {
        self.storage.exec(
            "INSERT INTO staged_jobs (job_id, kind, payload, staged_at_ms, sends, next_at_ms) VALUES (?,?,?,?,?,?)",
            vec![
                text(&job.job_id),
                text(job.kind.as_str()),
                text(job.payload.to_string()),
                int(job.staged_at_ms),
                int(job.sends),
                int(job.next_at_ms),
            ],
        )
    }

    fn append(&self, appended: &NewRows) -> Result<(), Bug> {
        for record in &appended.facts.audit {
            self.storage.exec(
                "INSERT INTO audit_records (at_ms, actor, action, subject, data) VALUES (?,?,?,?,?)",
                vec![
                    int(record.at_ms),
                    text(record.actor.to_text()),
                    text(record.action),
                    text(&record.subject),
                    text(record.data.to_string()),
                ],
            )?;
        }
        for job in &appended.jobs {
            self.insert_job(job)?;
        }
        for entry in &appended.timeline {
            self.storage.exec(
                "INSERT INTO timeline (key_id, at_ms, attempt, event, detail) VALUES (?,?,?,?,?)",
                vec![
                    int(entry.key_id),
                    int(entry.at_ms),
                    int(entry.attempt),
                    text(&entry.event),
                    text(&entry.detail),
                ],
            )?;
        }
        for event in &appended.facts.events {
            self.storage.exec(
                "INSERT INTO webhook_events (event_id, provider, kind, received_at_ms) VALUES (?,?,?,?)",
                vec![
                    text(event_key(event.provider, &event.event_id)),
                    text(event.provider.as_str()),
                    text(&event.kind),
                    int(event.received_at_ms),
                ],
            )?;
        }
        if !appended.facts.events.is_empty() {
            let older = "rowid <= (SELECT MAX(rowid) FROM webhook_events) - ?";
            let sql = format!("DELETE FROM webhook_events WHERE {older}");
            self.storage.exec(&sql, vec![int(EVENTS_NEWEST)])?;
        }
        if appended.timeline.is_empty() {
            return Ok(());
        }
        let bounds = vec![SqlValue::Integer(TIMELINE_FIRST), SqlValue::Integer(TIMELINE_NEWEST)];
        let middle = "entry_id > ? AND entry_id <= (SELECT MAX(entry_id) FROM timeline) - ?";
        self.storage.exec(&format!("DELETE FROM timeline WHERE {middle}"), bounds)
    }
}
