//! What becomes of the jobs that are staged: they are given to a queue, and confirmed.

use once::outbox::{self, Due};

use crate::fault::{Fault, Site};
use crate::saboteur::Saboteur;
use crate::scenario::Scenario;
use crate::world::{Event, WAY_MS, World};

impl<S: Scenario> World<'_, S> {
    /// Gives the queue what is staged.
    pub(crate) fn drain(&mut self) -> Result<(), String> {
        let ours = self.instance;
        let ctx = self.context();
        self.handed.keep_staged(&self.object_state);
        let due = outbox::due(&self.object_state, &self.handed, &ctx);
        if due.is_empty() {
            return Ok(());
        }
        let Due { leaving, waiting } = due;
        let fault = if leaving.is_empty() { None } else { self.site(Site::Queue) };
        let is_taken = fault != Some(Fault::QueueFails);
        if is_taken {
            for job in &leaving {
                self.jobs.push(job.job_id.clone());
                self.after(WAY_MS, Event::Confirm { job_id: job.job_id.clone() });
            }
        }
        if fault == Some(Fault::CrashAfterQueue) {
            self.crash()?;
            return Ok(());
        }
        let is_done = self.saboteur == Some(Saboteur::Outbox);
        let forgotten: Vec<String> =
            leaving.iter().filter(|_| is_done).map(|job| job.job_id.clone()).collect();
        let mut handed = std::mem::take(&mut self.handed);
        let written = if is_taken { outbox::handed(&mut handed, leaving, &ctx) } else { leaving };
        if !(written.is_empty() && waiting.is_empty() && forgotten.is_empty()) {
            self.transaction(|state, ctx| {
                outbox::sent(state, &written, is_taken, ctx);
                outbox::put_off(state, &mut handed, &waiting, ctx);
                forgotten.iter().for_each(|job_id| outbox::confirm(state, job_id));
                Ok(())
            })?;
        }
        // Should it have died of that, what it knew is gone.
        if self.instance == ours {
            self.handed = handed;
        }
        Ok(())
    }

    /// A job is done.
    pub(crate) fn confirm(&mut self, job_id: &str) -> Result<(), String> {
        if self.site(Site::Confirm) != Some(Fault::ConfirmLost) {
            self.confirmed.insert(job_id.to_owned());
            self.transaction(|state, _| {
                outbox::confirm(state, job_id);
                Ok(())
            })?;
        }
        Ok(())
    }
}
