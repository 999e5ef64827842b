//! The alarm: finishes what was abandoned and expires what is old, without any client.
//!
//! It never fails: after six failures the runtime drops an alarm for good. Whatever goes wrong is logged and the alarm
//! is set again; after a trap, by `entry.mjs`.

use std::rc::Rc;

use futures_util::future::{join, join_all};

use super::drive::Drive;
use once::alarm::wake;
use once::context::Bug;

/// When to try again after an alarm that failed, in ms.
pub(super) const AFTER_FAILURE_MS: i64 = 60_000;

impl Drive {
    /// What is due now.
    pub(super) async fn alarm(self: &Rc<Self>) {
        self.store.alarm_fired();
        self.wake().await;
    }

    /// The same, while the alarm stays set.
    pub(super) async fn wake(self: &Rc<Self>) {
        if let Err(bug) = self.do_what_is_due().await {
            self.log("error", "alarm_failed", &[("error", bug.0.as_str().into())]);
            self.store.force_alarm(self.context().now_ms.saturating_add_signed(AFTER_FAILURE_MS));
        }
    }

    async fn do_what_is_due(self: &Rc<Self>) -> Result<(), Bug> {
        let ctx = self.context();
        let tickets = self.store.transaction(&ctx, |rows| Ok::<_, Bug>(wake(rows, &self.me, &ctx)))?;
        let runs = tickets.into_iter().map(|ticket| {
            self.log("info", "resumed_by_alarm", &[("attempt", ticket.attempt.into())]);
            self.start(ticket, None, None)
        });
        let runs = join_all(runs);
        let (ends, ()) = join(runs, self.check(false)).await;
        self.drain().await;
        ends.into_iter().try_for_each(|end| end.map(|_| ()))
    }
}
