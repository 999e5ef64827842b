//! What providers tell: written down at once, worked on after the answer.

use std::rc::Rc;

use super::drive::Drive;
use crate::machine::context::Bug;
use crate::machine::rows::TakenEvent;
use crate::payment::news;
use crate::webhooks::{Event, Taken};

impl Drive {
    /// Takes in an event. What follows from it is done afterwards; should that break off, the alarm does it.
    pub(super) fn take_event(self: &Rc<Self>, event: Event) -> Result<Taken, Bug> {
        if self.store.read()?.is_none() {
            return Ok(Taken::Stranger);
        }
        if self.store.knows_event(&event.event_id)? {
            // Whoever keeps it for a person may have failed to: what comes again says so again.
            let contradiction = self.store.contradiction(&event.event_id)?;
            return Ok(contradiction.map_or(Taken::Known, |detail| Taken::Contradiction { detail }));
        }
        let ctx = self.context();
        let taken = self.store.transaction(&ctx, |rows| {
            let taken = news::take(rows, &event, &ctx)?;
            if !matches!(taken, Taken::Busy | Taken::Stranger) {
                rows.appended.events.push(TakenEvent {
                    event_id: event.event_id.clone(),
                    provider: event.provider,
                    kind: event.kind.clone(),
                    received_at_ms: ctx.now_ms,
                });
            }
            Ok::<_, Bug>(taken)
        })?;
        if matches!(taken, Taken::In | Taken::Alert { .. }) {
            let drive = Rc::clone(self);
            worker::wasm_bindgen_futures::spawn_local(async move { drive.wake().await });
        }
        Ok(taken)
    }
}
