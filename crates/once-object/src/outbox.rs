//! Hands on what is staged, after the commit. A crash on the way leaves it staged: the alarm sends it again.

use std::rc::Rc;

use once::context::Bug;
use once::outbox;

use super::object::{Host, Job, Object};

impl<H: Host> Object<H> {
    /// Hands on what is staged, all of it. A failure leaves it to the alarm.
    pub async fn drain(&self) {
        if self.draining.replace(true) {
            return;
        }
        let drained = self.deliver_all().await;
        self.draining.set(false);
        if let Err(bug) = drained {
            self.log("error", "outbox_failed", &[("error", bug.0.as_str().into())]);
        }
    }

    /// The same, without anybody waiting for it.
    pub fn drain_aside(self: &Rc<Self>) {
        let object = Rc::clone(self);
        worker::wasm_bindgen_futures::spawn_local(async move { object.drain().await });
    }

    async fn deliver_all(&self) -> Result<(), Bug> {
        loop {
            let Some(rows) = self.store().read()? else { return Ok(()) };
            let jobs = outbox::due(&rows, &self.context());
            if jobs.is_empty() {
                return Ok(());
            }
            let left = self.host().deliver(self, &rows, jobs.clone()).await?;
            let is_left = |job: &Job<H>| left.iter().any(|it| it.job_id == job.job_id);
            let (again, taken): (Vec<_>, Vec<_>) = jobs.into_iter().partition(is_left);
            let ctx = self.context();
            self.store().transaction(&ctx, |rows| {
                outbox::sent(rows, &taken, true, &ctx);
                outbox::sent(rows, &again, false, &ctx);
                Ok::<_, Bug>(())
            })?;
            if let Some(first) = left.into_iter().next() {
                return Err(Bug(first.reason));
            }
        }
    }
}
