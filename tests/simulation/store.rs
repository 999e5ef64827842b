//! The object's disk: rows that change by whole transactions or not at all, and the alarm that is set with them.

use std::collections::BTreeSet;

use once::alarm::{KnownAlarm, alarm_to_set};
use once::flow::Flow as _;
use paid_once::object::events::Remembered;
use payments::engine::{Context, KeyRecord, Lifecycle, NewRows, ObjectState, Payments};
use payments::payment::records::AuditRecord;
use payments::providers::Provider;

use crate::disk::{Committed, Disk, Disks};
use crate::faults::{HOUR, SKEW_MAX_MS};
use crate::invariants::KeyView;
use crate::saboteur::Saboteur;

/// Adyen is sent to for six days.
pub(crate) const ADYEN_WINDOW_MS: u64 = 6 * 24 * HOUR;

/// What is committed. What is only ever added is not loaded into a transaction.
pub(crate) struct Store {
    pub(crate) object_state: ObjectState,
    saboteur: Saboteur,
    /// The alarm, as the platform would say.
    pub(crate) alarm_at_ms: Option<u64>,
    /// What is known about it, and by which incarnation: whatever another one did, it does not know.
    known: (usize, KnownAlarm),
    /// Whether jobs stay until they are confirmed, and the read model is told of each change: else they are gone at once.
    has_outbox: bool,
    /// The same on SQLite, by the Worker's own store.
    disk: Option<Disk>,
    /// What that says otherwise.
    pub(crate) kept_otherwise: Option<String>,
    /// How many audit records there are.
    pub(crate) audit_records: u64,
    /// The events that were taken in, by their providers.
    pub(crate) events: BTreeSet<EventKey>,
    /// What a person must see of an event, in the order in which it was said.
    pub(crate) alerts: Vec<(EventKey, String)>,
}

/// An event's provider and its id there.
pub(crate) type EventKey = (&'static str, String);

/// A transaction that has run and is not committed.
pub(crate) struct Staged {
    /// Before a projection was staged, for the disk.
    changed: Option<ObjectState>,
    object_state: ObjectState,
    ctx: Context,
    set_alarm_ms: Option<u64>,
}

/// A transaction that was committed.
pub(crate) struct Kept {
    pub(crate) before: ObjectState,
    pub(crate) appended: NewRows,
    pub(crate) set_alarm: bool,
}

impl Store {
    pub(crate) fn new(object_state: ObjectState, saboteur: Saboteur) -> Self {
        Self {
            object_state,
            saboteur,
            alarm_at_ms: None,
            known: (0, KnownAlarm::Unknown),
            has_outbox: false,
            disk: None,
            kept_otherwise: None,
            audit_records: 0,
            events: BTreeSet::new(),
            alerts: Vec::new(),
        }
    }

    /// One whose jobs leave through a queue.
    pub(crate) fn with_outbox(object_state: ObjectState, saboteur: Saboteur) -> Self {
        let mut store = Self::new(object_state, saboteur);
        store.has_outbox = true;
        store
    }

    /// On a disk. Nothing was committed yet.
    pub(crate) fn on(&mut self, disks: &Disks) {
        self.disk = Some(Disk::new(self.object_state.object, self.has_outbox, disks));
    }

    /// The alarm rings in an incarnation: the platform has none any more.
    pub(crate) fn alarm_fired(&mut self, instance: usize) {
        self.alarm_at_ms = None;
        self.known = (instance, KnownAlarm::Gone);
        if let Some(disk) = &mut self.disk {
            disk.alarm_fired(instance);
        }
    }

    /// What it says of an event before that is taken in.
    pub(crate) fn remembers(&self, event: &paid_once::webhooks::Event) -> Remembered {
        let key = (event.provider.as_str(), event.event_id.clone());
        let said = self.alerts.iter().find(|(of, _)| *of == key);
        Remembered {
            is_known: self.events.contains(&key),
            contradiction: said.map(|(_, detail)| detail.clone()),
            records: self.alerts.len() as u64,
        }
    }

    /// Runs a transaction: an error drops it.
    pub(crate) fn transaction<T, E>(
        &self,
        ctx: &Context,
        instance: usize,
        body: impl FnOnce(&mut ObjectState) -> Result<T, E>,
    ) -> Result<(T, Staged), E> {
        let mut object_state = self.object_state.clone();
        let value = body(&mut object_state)?;
        self.saboteur.commits(&self.object_state, &mut object_state);
        let changed = self.disk.is_some().then(|| object_state.clone());
        if self.has_outbox {
            Payments::on_commit(&self.object_state, &mut object_state, ctx);
        }
        let known = if self.known.0 == instance { self.known.1 } else { KnownAlarm::Unknown };
        let set_alarm_ms = alarm_to_set(&self.object_state, &self.saboteur.due(&object_state), known, ctx);
        Ok((value, Staged { changed, object_state, ctx: *ctx, set_alarm_ms }))
    }

    /// Commits it.
    pub(crate) fn keep(&mut self, staged: Staged, instance: usize) -> Kept {
        let Staged { changed, mut object_state, ctx, set_alarm_ms } = staged;
        let appended = std::mem::take(&mut object_state.appended);
        if self.has_outbox {
            object_state.jobs.extend(appended.jobs.iter().cloned());
            self.audit_records += appended.facts.audit.len() as u64;
        }
        self.events.extend(
            appended.facts.events.iter().map(|event| (event.provider.as_str(), event.event_id.clone())),
        );
        self.alerts.extend(appended.facts.audit.iter().filter_map(alert));
        let before = std::mem::replace(&mut self.object_state, object_state);
        if self.known.0 != instance {
            self.known = (instance, KnownAlarm::Unknown);
        }
        if let Some(at_ms) = set_alarm_ms {
            self.alarm_at_ms = Some(at_ms);
            self.known = (instance, KnownAlarm::At(at_ms));
        }
        if let (Some(disk), Some(changed)) = (&mut self.disk, &changed) {
            let (after, events) = (&self.object_state, &self.events);
            let committed = Committed { changed, after, set_alarm_ms, events };
            self.kept_otherwise = disk.committed(&committed, instance, &ctx).err();
        }
        Kept { before, appended, set_alarm: set_alarm_ms.is_some() }
    }
}

/// Whether all that was heard about a call, by its derived key and the number of sends that its object knows of, says that nothing was executed.
pub(crate) type IsRefused<'a> = &'a dyn Fn(&str, u32) -> bool;

/// The event that a record tells a person of, and what it said.
fn alert(record: &AuditRecord) -> Option<(EventKey, String)> {
    if !matches!(record.action, "webhook.contradicts" | "webhook.alert") {
        return None;
    }
    let text = |name: &str| record.data.get(name).and_then(serde_json::Value::as_str);
    let provider =
        [Provider::Stripe, Provider::Adyen].into_iter().find(|one| Some(one.as_str()) == text("provider"))?;
    Some(((provider.as_str(), text("event").unwrap_or_default().to_owned()), text("detail")?.to_owned()))
}

/// A key as the auditor sees it.
pub(crate) fn key_view(
    object_state: &ObjectState,
    key: &KeyRecord,
    now_ms: u64,
    is_refused: IsRefused<'_>,
) -> KeyView {
    let (life, holder, expires_at_ms) = match &key.lifecycle {
        Lifecycle::Open(open) => ("open", open.lease.as_ref().map(|lease| lease.holder.0.clone()), None),
        Lifecycle::Finished(finished) => ("finished", None, Some(finished.expires_at_ms)),
        Lifecycle::Expired(_) => ("expired", None, None),
    };
    KeyView {
        key: key.key_id,
        point: key.recovery_point().as_str(),
        life,
        attempt: key.attempt,
        holder,
        needs_person: needs_person(object_state, key.key_id, now_ms, is_refused),
        expires_at_ms,
    }
}

/// Adyen has said all that it will, or is not sent to any more, and can't be asked; and money may have moved.
fn needs_person(object_state: &ObjectState, key_id: u32, now_ms: u64, is_refused: IsRefused<'_>) -> bool {
    object_state.unsettled_call(key_id).filter(|call| call.provider == Provider::Adyen).is_some_and(|call| {
        let over = |at_ms| now_ms + 2 * SKEW_MAX_MS >= at_ms + ADYEN_WINDOW_MS;
        let is_over = call.answer_is_stored || call.first_sent_at_ms.is_some_and(over);
        is_over && !is_refused(&call.provider_key, call.sends)
    })
}

/// Whether a key is open that does not wait for a person.
pub(crate) fn has_open_key(object_state: &ObjectState, now_ms: u64, is_refused: IsRefused<'_>) -> bool {
    let is_open = |key: &&KeyRecord| matches!(key.lifecycle, Lifecycle::Open(_));
    object_state
        .keys
        .iter()
        .filter(is_open)
        .any(|key| !needs_person(object_state, key.key_id, now_ms, is_refused))
}

/// When the first response is to be dropped, by the clock of who finished it.
pub(crate) fn first_expiry_ms(object_state: &ObjectState) -> Option<u64> {
    let expires = |key: &KeyRecord| match &key.lifecycle {
        Lifecycle::Finished(finished) => Some(finished.expires_at_ms),
        _ => None,
    };
    object_state.keys.iter().filter_map(expires).min()
}
