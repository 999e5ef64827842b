//! The alarm: finishes what was abandoned and expires what is old, without any client.
//!
//! It never fails: after six failures the runtime drops an alarm for good. Whatever goes wrong is logged and the alarm
//! is set again; after a trap, in JavaScript, by the guard.

use std::rc::Rc;
use std::time::Duration;

use super::object::{Host, Object};
use super::wait_at_most;
use futures_util::future::{join, join_all};
use once::alarm::{is_for_jobs, wake};
use once::context::Bug;
use once::run::{Action, Run};

/// When to try again after an alarm that failed, in ms.
const AFTER_FAILURE_MS: i64 = 60_000;

impl<H: Host> Object<H> {
    /// The alarm has fired: does what is due now.
    pub async fn alarm(self: &Rc<Self>) {
        self.store().alarm_gone();
        self.wake().await;
    }

    /// The same, while the alarm stays set.
    pub async fn wake(self: &Rc<Self>) {
        if let Err(bug) = self.do_what_is_due().await {
            self.log("error", "alarm_failed", &[("error", bug.0.as_str().into())]);
            self.store().force_alarm(self.context().now_ms.saturating_add_signed(AFTER_FAILURE_MS));
        }
    }

    /// The same, for at most so long: then it goes on without whoever waits for it.
    pub async fn wake_within(self: &Rc<Self>, patience: Duration) {
        let object = Rc::clone(self);
        wait_at_most(patience, async move { object.wake().await }).await;
    }

    /// The same, without anybody waiting for it.
    pub fn wake_aside(self: &Rc<Self>) {
        let object = Rc::clone(self);
        worker::wasm_bindgen_futures::spawn_local(async move { object.wake().await });
    }

    async fn do_what_is_due(self: &Rc<Self>) -> Result<(), Bug> {
        // What is over is forgotten first: that sets the alarm, once.
        let state = self.store().read()?;
        self.host().prepare(state.as_deref(), None).await;
        if state.is_some_and(|rows| is_for_jobs(&rows, self.me(), &self.context())) {
            self.drain_late().await;
        }
        let ctx = self.context();
        let tokens = self.store().transaction(&ctx, |rows| Ok::<_, Bug>(wake(rows, self.me(), &ctx)))?;
        let runs = tokens.into_iter().map(|token| {
            self.log_of(token.key_id, "info", "resumed_by_alarm", &[("attempt", token.attempt.into())]);
            self.start(Run::new(token, 0, &[]), Action::Again, None)
        });
        let runs = join_all(runs);
        let (ends, ()) = join(runs, self.host().woken(self)).await;
        self.drain().await;
        ends.into_iter().try_for_each(|end| end.map(|_| ()))
    }
}
