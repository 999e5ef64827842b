//! What goes on by itself, in a message of its own: a job that has failed, and one that was not waited for.
//!
//! Only a job may be left in the midst of a send whose service does the same thing once under one key: an email, which its message repeats
//! byte for byte (`Apart::frozen`) within the day for which the key is kept.

use std::cell::Cell;
use std::time::Duration;

use messages::job::{Apart, Job, batches};
use messages::queue::Queue;
use payments::payment::records::JobKind;
use runtime::{metrics, queue};
use worker::Env;

use super::circuit::Circuit;
use super::service;

/// How long the queue may take to accept jobs that go on by themselves.
const QUEUE_TAKES: Duration = Duration::from_secs(10);

/// A job that is not over.
pub(super) struct Next<'a> {
    pub(super) job: &'a Job,
    pub(super) after_s: u32,
    /// What it takes with it, if it was left before its end was written down.
    pub(super) left: Option<Apart>,
}

impl Next<'_> {
    /// Whether its message, if it has no other job, can come again as it is, in the queue in which it was.
    pub(super) fn stays(&self, env: &Env) -> bool {
        self.left.is_none() && (self.job.apart.is_some() || !has_own_queue(env, self.job.kind))
    }
}

/// Whether jobs of a kind have a queue of their own to go on in.
fn has_own_queue(env: &Env, kind: JobKind) -> bool {
    let bound = queue::bound(env);
    match Queue::of(kind) {
        Queue::Jobs => false,
        Queue::Emails => bound.has_emails,
        Queue::Deliveries => bound.has_deliveries,
    }
}

/// Whether a job is waited for only as long as a projection is.
pub(super) fn may_be_left(env: &Env, job: &Job) -> bool {
    let is_repeatable = match job.kind {
        // Its service keeps our key for a day.
        JobKind::SendReceipt => true,
        // It is handed on before it is tried.
        JobKind::DeliverWebhook | JobKind::Project | JobKind::Retired => false,
    };
    is_repeatable && job.apart.is_none() && has_own_queue(env, job.kind)
}

/// After how many seconds a job goes on that was left with this sent: when that send has ended, for while it is under way its key is in use.
pub(super) const fn after_left_s(left: &Apart) -> u32 {
    if left.frozen.is_some() { service::TIMEOUT_S } else { 0 }
}

thread_local! {
    static CIRCUIT: Cell<Circuit> = const { Cell::new(Circuit::Closed) };
}

/// Whether an email may begin beside a projection, as far as this isolate knows its service.
pub(super) fn may_begin() -> bool {
    let (begins, circuit) = CIRCUIT.get().begin(runtime::now_ms());
    CIRCUIT.set(circuit);
    begins
}

/// An email beside a projection has ended in time, or was left.
pub(super) fn email_ended(is_in_time: bool) {
    CIRCUIT.set(CIRCUIT.get().ended(is_in_time, runtime::now_ms()));
}

/// Sends each of these jobs on by itself, to the queue of its kind.
pub(super) async fn send(env: &Env, jobs: &[Next<'_>]) -> worker::Result<()> {
    for kind in Queue::ALL {
        let mut texts = Vec::new();
        let mut binding = String::new();
        for Next { job, after_s, left } in jobs.iter().filter(|next| Queue::of(next.job.kind) == kind) {
            // A message has the jobs of one object.
            binding = queue::binding(env, kind, &job.object);
            texts.push((job.going_on(left.clone().unwrap_or_default())?, *after_s));
        }
        for batch in batches(texts, |(text, _)| text) {
            let texts = batch.iter().map(|(text, after_s)| (text.as_str(), *after_s));
            queue::send(env, &binding, texts, QUEUE_TAKES).await?;
            metrics::queued(batch.len());
        }
    }
    Ok(())
}
