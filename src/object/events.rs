//! What providers tell: written down at once, worked on after the answer.
//!
//! A provider that tells for ever adds no rows for ever. An object knows its newest events
//! ([`EVENTS_NEWEST`](super::log::EVENTS_NEWEST)); an older one that comes again is taken in again, which moves nothing twice.
//! And once it has [`RECORDS_MAX`] audit records of events that a person must see, the next such event is not written down:
//! whenever it comes it says so again, and whoever brings it keeps it.

use super::drive::Drive;
use super::log::{contradiction, forget_events, knows_event, records_of_events};
use crate::webhooks::{Event, Ingested};
use once::context::Bug;
use once_object::storage::Storage;
use once_object::store::Store;
use payments::engine::{Context, ObjectState, Payments};
use payments::payment::records::TakenEvent;
use payments::transitions::ingest;

/// The audit records of events that a person must see.
pub const RECORDS_MAX: u64 = 100;

/// What the tables say of an event before it is taken in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remembered {
    /// It was taken in: the same id, of the same provider.
    pub is_known: bool,
    /// What it said then that a person must see, and whoever brings it keeps.
    pub contradiction: Option<String>,
    /// How many events there were that a person must see.
    pub records: u64,
}

impl Remembered {
    /// The answer to an event that was taken in before.
    pub fn answer(&self) -> Option<Ingested> {
        // Whoever keeps it for a person may have failed to: what comes again says so again.
        let again = || {
            self.contradiction
                .clone()
                .map_or(Ingested::Duplicate, |detail| Ingested::Contradiction { detail })
        };
        self.is_known.then(again)
    }
}

/// Takes in an event.
pub fn take<S: Storage>(store: &Store<Payments, S>, event: &Event, ctx: &Context) -> Result<Ingested, Bug> {
    if store.read()?.is_none() {
        return Ok(Ingested::UnknownResource);
    }
    let is_known = knows_event(store, event.provider, &event.event_id)?;
    let remembered = Remembered {
        is_known,
        contradiction: if is_known { contradiction(store, event.provider, &event.event_id)? } else { None },
        records: records_of_events(store)?,
    };
    if let Some(answer) = remembered.answer() {
        return Ok(answer);
    }
    let taken = store.transaction(ctx, |state| take_in(state, event, &remembered, ctx))?;
    forget_events(store)?;
    Ok(taken)
}

/// Takes a new event into the rows, and remembers it unless it is to come again.
pub fn take_in(
    state: &mut ObjectState,
    event: &Event,
    remembered: &Remembered,
    ctx: &Context,
) -> Result<Ingested, Bug> {
    let taken = ingest::take(state, event, ctx)?;
    let is_for_a_person = matches!(taken, Ingested::Contradiction { .. } | Ingested::Alert { .. });
    if is_for_a_person && remembered.records >= RECORDS_MAX {
        // What it changed has records of its own.
        state.appended.facts.audit.retain(|record| !record.action.starts_with("webhook."));
    } else if !matches!(taken, Ingested::RetryLater | Ingested::UnknownResource | Ingested::OtherAccount) {
        remember(state, event, ctx);
        if is_for_a_person && event.is_unwritten {
            // The projection makes the break of the record, as soon as it can be written.
            return Ok(Ingested::Applied);
        }
    }
    Ok(taken)
}

/// From now on the event is known.
pub fn remember(state: &mut ObjectState, event: &Event, ctx: &Context) {
    state.appended.facts.events.push(TakenEvent {
        event_id: event.event_id.clone(),
        provider: event.provider,
        kind: event.kind.clone(),
        received_at_ms: ctx.now_ms,
    });
}

impl Drive {
    /// Takes in an event. What follows from it is done afterwards; should that break off, the alarm does it.
    pub(super) fn take_event(&self, event: &Event) -> Result<Ingested, Bug> {
        let taken = take(self.store(), event, &self.context())?;
        if matches!(taken, Ingested::Applied | Ingested::Alert { .. }) {
            self.wake_aside();
        }
        Ok(taken)
    }
}
