//! What the host waits for, for a bounded time, whether or not it does that by itself: one that hangs would hold its client, and the alarm of all keys
//! of its object. Nothing is lost by it: what was given up counts as not known.

use once::call::{LookUp, Outcome};
use once::context::Bug;
use once::object_state::ObjectState;
use once::times::Times;

use super::object::{Answer, Call, Host, Job, NotTaken, Object};
use super::within;

/// What is told of what has come to no end.
const HANGS: &str = "the host did not come to an end";

/// How long a send may take at most: longer than [a call may](Times::provider_timeout_ms), and over before its lease is.
const fn send_ms(times: &Times) -> u64 {
    let most_ms = times.lease_ms.saturating_sub(times.provider_timeout_ms);
    times.provider_timeout_ms.saturating_add(most_ms / 2)
}

impl<H: Host> Object<H> {
    /// What comes of it within so many ms. It costs a timer, which a host that bounds all by itself need not pay.
    async fn bounded<T>(&self, ms: u64, work: impl Future<Output = T>) -> Option<T> {
        if H::ENDS_BY_ITSELF { Some(work.await) } else { within(ms, work).await }
    }

    pub(super) async fn send(&self, call: &Call<H>) -> Outcome<Answer<H>> {
        let sent = self.bounded(send_ms(&self.host().times()), self.host().send(call)).await;
        sent.unwrap_or_else(|| {
            self.hangs("send");
            Outcome::Unknown { answer_is_stored: false, reason: HANGS.to_owned() }
        })
    }

    pub(super) async fn look_up(&self, call: &Call<H>) -> LookUp<Answer<H>> {
        let looked_up = self.bounded(self.lease_ms(), self.host().look_up(call)).await;
        looked_up.unwrap_or_else(|| {
            self.hangs("look_up");
            LookUp::Inconclusive { from_the_start: false, reason: HANGS.to_owned() }
        })
    }

    pub(super) async fn deliver(
        &self,
        rows: &ObjectState<H::Flow>,
        jobs: Vec<Job<H>>,
    ) -> Result<Vec<NotTaken>, Bug> {
        let delivered = self.bounded(self.lease_ms(), self.host().deliver(self, rows, jobs)).await;
        delivered.unwrap_or_else(|| Err(self.hangs("deliver")))
    }

    pub(super) async fn forget_those_over(
        &self,
        rows: &ObjectState<H::Flow>,
        jobs: &[Job<H>],
    ) -> Result<(), Bug> {
        let looked = self.bounded(self.lease_ms(), self.host().forget_over(self, rows, jobs)).await;
        looked.unwrap_or_else(|| Err(self.hangs("forget_over")))
    }

    fn lease_ms(&self) -> u64 {
        self.host().times().lease_ms
    }

    fn hangs(&self, method: &str) -> Bug {
        self.log("error", "host_hangs", &[("method", method.into())]);
        Bug(HANGS.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_send_is_given_up_after_its_host_should_have_and_before_its_lease_is_over() {
        for (provider_timeout_ms, lease_ms) in [(30_000, 90_000), (2_000, 5_000), (1_000, 1_002)] {
            let times = Times { provider_timeout_ms, lease_ms, ..Times::default() };
            let given_up_ms = send_ms(&times);
            assert!(provider_timeout_ms < given_up_ms && given_up_ms < lease_ms, "{given_up_ms}");
        }
    }
}
