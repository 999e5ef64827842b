//! Hands on what is staged, after the commit. A crash on the way leaves it staged: the alarm sends it again.

use std::rc::Rc;

use once::context::Bug;
use once::object_state::ObjectState;
use once::outbox::{self, Due};

use super::object::{Host, Job, NotTaken, Object};

impl<H: Host> Object<H> {
    /// Hands on what is staged, all of it. A failure leaves it to the alarm.
    pub async fn drain(&self) {
        if self.draining.replace(true) {
            return;
        }
        let drained = self.deliver_all().await;
        self.draining.set(false);
        self.tell_of(drained);
    }

    /// The same for the alarm, which has come for jobs. While some are being handed on they get more time: an alarm that changed nothing
    /// would ring again at once, and again.
    pub(crate) async fn drain_late(&self) {
        if !self.draining.get() {
            return self.drain().await;
        }
        let ctx = self.context();
        let waits = self.store().transaction(&ctx, |rows| {
            outbox::let_wait(rows, &ctx);
            Ok::<_, Bug>(())
        });
        self.tell_of(waits);
    }

    fn tell_of(&self, drained: Result<(), Bug>) {
        if let Err(bug) = drained {
            self.log("error", "outbox_failed", &[("error", bug.0.as_str().into())]);
        }
    }

    /// The same, without anybody waiting for it.
    pub fn drain_aside(self: &Rc<Self>) {
        let object = Rc::clone(self);
        worker::wasm_bindgen_futures::spawn_local(async move { object.drain().await });
    }

    /// Forgets the late jobs that are done or dead. Where that cannot be found out, all of them stay.
    async fn forget_over(&self) -> Result<(), Bug> {
        let late = |rows: &ObjectState<H::Flow>| outbox::late(rows, &self.context());
        if self.store().known()?.is_none_or(|rows| late(&rows).is_empty()) {
            return Ok(());
        }
        let Some(rows) = self.store().read()? else { return Ok(()) };
        let late = late(&rows);
        if late.is_empty() {
            return Ok(());
        }
        if let Err(bug) = self.forget_those_over(&rows, &late).await {
            self.log("warn", "outbox_not_looked_at", &[("error", bug.0.as_str().into())]);
        }
        Ok(())
    }

    async fn deliver_all(&self) -> Result<(), Bug> {
        self.forget_over().await?;
        loop {
            let due = |rows: &ObjectState<H::Flow>| {
                self.handed.borrow_mut().keep_staged(rows);
                outbox::due(rows, &self.handed.borrow(), &self.context())
            };
            if self.store().known()?.is_none_or(|rows| due(&rows).is_empty()) {
                return Ok(());
            }
            let Some(rows) = self.store().read()? else { return Ok(()) };
            let due = due(&rows);
            if due.is_empty() {
                return Ok(());
            }
            let Due { leaving, waiting } = due;
            let left = match leaving.is_empty() {
                true => Vec::new(),
                // One that fails as a whole has taken none: they leave again later, not at once.
                false => self.deliver(&rows, leaving.clone()).await.unwrap_or_else(|bug| {
                    let not_taken =
                        |job: &Job<H>| NotTaken { job_id: job.job_id.clone(), reason: bug.0.clone() };
                    leaving.iter().map(not_taken).collect()
                }),
            };
            let is_left = |job: &Job<H>| left.iter().any(|it| it.job_id == job.job_id);
            let (again, taken): (Vec<_>, Vec<_>) = leaving.into_iter().partition(is_left);
            let ctx = self.context();
            let mut handed = self.handed.borrow_mut();
            let taken = outbox::handed(&mut handed, taken, &ctx);
            if !(taken.is_empty() && again.is_empty() && waiting.is_empty()) {
                self.store().transaction(&ctx, |rows| {
                    outbox::sent(rows, &taken, true, &ctx);
                    outbox::sent(rows, &again, false, &ctx);
                    outbox::put_off(rows, &mut handed, &waiting, &ctx);
                    Ok::<_, Bug>(())
                })?;
            }
            drop(handed);
            if let Some(first) = left.into_iter().next() {
                return Err(Bug(first.reason));
            }
        }
    }
}
