//! What providers tell: written down at once, worked on after the answer.
//!
//! A provider that tells for ever adds no rows for ever. An object knows its newest events ([`EVENTS_NEWEST`]); an older one that
//! comes again is taken in again, which moves nothing twice. And once it has [`RECORDS_MAX`] audit records of events that a person
//! must see, the next such event is not written down: whenever it comes it says so again, and whoever brings it keeps it.

#[cfg(target_arch = "wasm32")]
use std::rc::Rc;

#[cfg(target_arch = "wasm32")]
use super::drive::Drive;
use super::storage::Storage;
use super::store::Store;
use crate::machine::context::{Bug, Context};
use crate::machine::rows::TakenEvent;
use crate::payment::news;
use crate::webhooks::{Event, Taken};

/// The events that an object knows: the newest.
pub const EVENTS_NEWEST: u32 = 500;
/// The audit records of events that a person must see.
pub const RECORDS_MAX: u64 = 100;

/// Takes in an event.
pub fn take<S: Storage>(store: &Store<S>, event: &Event, ctx: &Context) -> Result<Taken, Bug> {
    if store.read()?.is_none() {
        return Ok(Taken::Stranger);
    }
    if store.knows_event(&event.event_id)? {
        // Whoever keeps it for a person may have failed to: what comes again says so again.
        let contradiction = store.contradiction(&event.event_id)?;
        return Ok(contradiction.map_or(Taken::Known, |detail| Taken::Contradiction { detail }));
    }
    let has_all_records = store.records_of_events()? >= RECORDS_MAX;
    store.transaction(ctx, |rows| {
        let taken = news::take(rows, event, ctx)?;
        let is_for_a_person = matches!(taken, Taken::Contradiction { .. } | Taken::Alert { .. });
        if is_for_a_person && has_all_records {
            // What it changed has records of its own.
            rows.appended.audit.retain(|record| !record.action.starts_with("webhook."));
        } else if !matches!(taken, Taken::Busy | Taken::Stranger) {
            rows.appended.events.push(TakenEvent {
                event_id: event.event_id.clone(),
                provider: event.provider,
                kind: event.kind.clone(),
                received_at_ms: ctx.now_ms,
            });
        }
        Ok(taken)
    })
}

#[cfg(target_arch = "wasm32")]
impl Drive {
    /// Takes in an event. What follows from it is done afterwards; should that break off, the alarm does it.
    pub(super) fn take_event(self: &Rc<Self>, event: &Event) -> Result<Taken, Bug> {
        let taken = take(&self.store, event, &self.context())?;
        if matches!(taken, Taken::In | Taken::Alert { .. }) {
            let drive = Rc::clone(self);
            worker::wasm_bindgen_futures::spawn_local(async move { drive.wake().await });
        }
        Ok(taken)
    }
}
