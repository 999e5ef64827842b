//! Jobs and the read model.

use super::{Auditor, FORWARD, ONCE, SHOWS, SWEPT};
use crate::invariants::Violation;

impl Auditor {
    /// The read model shows an object as it was at this version.
    pub(crate) fn projected(&mut self, object: usize, version: u64) {
        let before = self.shown.insert(object, version).unwrap_or(0);
        if version < before {
            self.violated(FORWARD, format!("object {object}: version {version} after {before}"));
        }
    }

    /// A job other than a projection was done.
    pub(crate) fn job_done(&mut self, job_id: &str) {
        let times = self.jobs_done.entry(job_id.to_owned()).or_default();
        *times += 1;
        if *times > 1 {
            let seen = format!("{job_id} was done {times} times");
            self.violated(ONCE, seen);
        }
    }

    /// What an object has staged was over long ago. `left` is what it still holds.
    pub(crate) fn at_rest(&mut self, object: usize, left: &[&str]) {
        if !left.is_empty() {
            self.violated(ONCE, format!("{left:?} are not over"));
        }
        let staged = self.objects.get(&object).map(|seen| seen.jobs.clone()).unwrap_or_default();
        for job in staged.iter().filter(|job| !self.jobs_done.contains_key(*job)) {
            self.violations.push(Violation { invariant: ONCE, seen: format!("{job} was never done") });
        }
    }

    /// At rest the read model says something else than the object.
    pub(crate) fn shows_otherwise(&mut self, seen: String) {
        self.violated(SHOWS, seen);
    }

    /// The read model has heard all that an object said, and does not show that it should have been awake.
    pub(crate) fn not_swept(&mut self, object: usize) {
        self.violated(SWEPT, format!("object {object}"));
    }
}
