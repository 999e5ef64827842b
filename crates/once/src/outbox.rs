//! The outbox: jobs are staged with the change that needs them, leave after the commit, and are forgotten only when they are known to be
//! over: done, or in the dead letters.
//!
//! ```text
//! staged ──► given to the queue ──► outbox_ms after it was staged: is it over? ── yes ──► forgotten
//!                  ▲                                                          └─ no ───► confirm_ms later: is it over? …
//!                  └──────────────────────────────────────── no: given to the queue again ◄──────────────────┘
//! ```
//!
//! That a job was given to the queue is not written down: most often it is over when it is looked at, and one commit forgets it. What an
//! incarnation knows of it goes with the incarnation; the next one gives the queue once more what is not over. So a job may be given to the
//! queue more than once, and whoever does it knows it by its id.

use std::collections::BTreeSet;

use super::context::Context;
use super::domain::Domain;
use super::object_state::{ObjectState, StagedJob};
use super::times::OUTBOX_MS;

/// How long a queue that did not take a job is left alone at least, in ms.
const REFUSED_MS: u64 = 10_000;
/// How long the queue has to take what is sent, in ms: what is staged meanwhile waits for it.
pub const QUEUE_TAKES_MS: u64 = 4_000;
// A job waits for the send that is under way and then for its own. Were its alarm earlier, it would ring again and again while
// a slow queue holds both.
const _: () = assert!(2 * QUEUE_TAKES_MS < OUTBOX_MS, "the alarm leaves the queue its time");
const _: () = assert!(2 * QUEUE_TAKES_MS < REFUSED_MS, "the alarm leaves the queue its time");
/// How many jobs leave at once at most.
const BATCH_MAX: usize = 25;

/// What an incarnation has given to the queue and has not looked at since, by its ids. It is kept in memory.
#[derive(Clone, Debug, Default)]
pub struct Handed(BTreeSet<String>);

/// What is to be done about the jobs now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Due<K> {
    /// These leave.
    pub leaving: Vec<StagedJob<K>>,
    /// The queue has these already. They are not over, and get more time.
    pub waiting: Vec<StagedJob<K>>,
}

impl<K> Due<K> {
    /// Whether there is nothing to do.
    pub const fn is_empty(&self) -> bool {
        self.leaving.is_empty() && self.waiting.is_empty()
    }
}

/// A job, as it is staged now.
pub fn job<K, S>(kind: K, job_id: String, payload: serde_json::Value, ctx: &Context<S>) -> StagedJob<K> {
    let next_at_ms = ctx.now_ms.saturating_add(look_ms(ctx));
    StagedJob { job_id, kind, payload, staged_at_ms: ctx.now_ms, sends: 0, next_at_ms }
}

/// What is staged now is looked at together with what has been staged before and waits to leave, unless that is too soon: then the alarm
/// stays where it is.
pub fn join_earlier<F: Domain>(
    before: &ObjectState<F>,
    after: &mut ObjectState<F>,
    ctx: &Context<F::Settings>,
) {
    let soon_ms = ctx.now_ms.saturating_add(look_ms(ctx) / 2);
    let earlier = before.jobs.iter().filter(|job| job.sends == 0).map(|job| job.next_at_ms);
    let Some(earlier_ms) = earlier.min().filter(|at_ms| *at_ms >= soon_ms) else { return };
    for job in &mut after.appended.jobs {
        job.next_at_ms = job.next_at_ms.min(earlier_ms);
    }
}

fn look_ms<S>(ctx: &Context<S>) -> u64 {
    ctx.times.outbox_ms.min(ctx.times.confirm_ms)
}

/// When the next job is looked at, in ms since the epoch.
pub(crate) fn wakes_at<F: Domain>(state: &ObjectState<F>) -> Option<u64> {
    state.jobs.iter().chain(&state.appended.jobs).map(|job| job.next_at_ms).min()
}

/// The jobs that are to be looked at: those of them that are over are to be [forgotten](confirm) before it is asked what is [due].
pub fn late<F: Domain>(state: &ObjectState<F>, ctx: &Context<F::Settings>) -> Vec<StagedJob<F::JobKind>> {
    state.jobs.iter().filter(|job| job.next_at_ms <= ctx.now_ms).cloned().collect()
}

/// What is to be done about the jobs that are not over: those leave that have not left yet, as far as is known here, and those that were
/// given their time.
pub fn due<F: Domain>(
    state: &ObjectState<F>,
    handed: &Handed,
    ctx: &Context<F::Settings>,
) -> Due<F::JobKind> {
    let is_late = |job: &StagedJob<F::JobKind>| job.next_at_ms <= ctx.now_ms;
    let is_handed = |job: &StagedJob<F::JobKind>| handed.0.contains(&job.job_id);
    let leaving = state.jobs.iter().filter(|job| !is_handed(job) && (job.sends == 0 || is_late(job)));
    let waiting = state.jobs.iter().filter(|job| is_handed(job) && is_late(job));
    Due { leaving: leaving.take(BATCH_MAX).cloned().collect(), waiting: waiting.cloned().collect() }
}

/// The queue has taken these. Gives those of which that must be written down: the others are remembered until they are looked at.
pub fn handed<K, S>(handed: &mut Handed, taken: Vec<StagedJob<K>>, ctx: &Context<S>) -> Vec<StagedJob<K>> {
    handed.0.extend(taken.iter().map(|job| job.job_id.clone()));
    taken.into_iter().filter(|job| job.sends > 0 || job.next_at_ms <= ctx.now_ms).collect()
}

/// The queue has these, or could not take them (`taken`): when they are looked at again.
pub fn sent<F: Domain>(
    state: &mut ObjectState<F>,
    jobs: &[StagedJob<F::JobKind>],
    taken: bool,
    ctx: &Context<F::Settings>,
) {
    for job in state.jobs.iter_mut().filter(|job| jobs.iter().any(|sent| sent.job_id == job.job_id)) {
        job.sends = job.sends.saturating_add(1);
        let pause_ms = if taken { look_ms(ctx) } else { ctx.backoff_ms(job.sends).max(REFUSED_MS) };
        job.next_at_ms = ctx.now_ms.saturating_add(pause_ms);
    }
}

/// The queue has had these for a while, and they are not over: when they leave again.
pub fn put_off<F: Domain>(
    state: &mut ObjectState<F>,
    handed: &mut Handed,
    jobs: &[StagedJob<F::JobKind>],
    ctx: &Context<F::Settings>,
) {
    for job in state.jobs.iter_mut().filter(|job| jobs.iter().any(|waiting| waiting.job_id == job.job_id)) {
        job.sends = job.sends.max(1);
        job.next_at_ms = ctx.now_ms.saturating_add(ctx.times.confirm_ms);
        handed.0.remove(&job.job_id);
    }
}

/// A queue has been at work on these for long already: they are looked at once more when it has had its time.
pub fn let_wait<F: Domain>(state: &mut ObjectState<F>, ctx: &Context<F::Settings>) {
    for job in state.jobs.iter_mut().filter(|job| job.next_at_ms <= ctx.now_ms) {
        job.next_at_ms = ctx.now_ms.saturating_add(REFUSED_MS);
    }
}

/// A job is done, or lies in the dead letters: nothing more is to be done about it here.
pub fn confirm<F: Domain>(state: &mut ObjectState<F>, job_id: &str) {
    state.jobs.retain(|job| job.job_id != job_id);
}

impl Handed {
    /// Drops what is not staged any more.
    pub fn keep_staged<F: Domain>(&mut self, state: &ObjectState<F>) {
        self.0.retain(|job_id| state.jobs.iter().any(|job| job.job_id == *job_id));
    }
}
