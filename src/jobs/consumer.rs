//! Consumes a batch of messages. Each is acknowledged or retried by itself, so that none delays another: a job that fails beside others goes
//! on in a message of its own.
//!
//! Where emails have a queue of their own, a message with a projection waits for an email only as long as the projection does. One that is not
//! done by then is left, and goes on there ([`super::hand_on`]): it may have been sent, and is sent again as it was, under the same key.
//!
//! No object is told: it looks into D1 which of its jobs are over.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, join, join_all, select};
use serde_json::{Map, Value};
use worker::{Delay, Env, Message, MessageBatch, MessageExt, QueueRetryOptionsBuilder};

use super::deliver_webhook;
use super::disposition::{Disposition, RETRY_DELAY_S, failed, is_done, left, over, unfinished, unrecorded};
use super::hand_on::{self, Next};
use super::ledger::{Frozen, IN_PAYMENT_MS, KnownJobs, Ledger, Reads};
use super::outcome::{Done, Failure, retired};
use super::send_receipt;
use super::slots::Slots;
use super::unasked::may_send;
use crate::config::Config;
use crate::deliveries::tell;
use crate::readmodel::project::{Writes, project};
use messages::job::{Apart, Job};
use messages::queue::Queue;
use messages::snapshot::Snapshot;
use once::trace::TraceContext;
use payments::payment::records::JobKind;
use runtime::http_client::within;
use runtime::log::log;
use runtime::now_ms;
use runtime::queue;
use runtime::trace;
use web::trace::{Kind, Span};

/// What a dead letter says that its queue has delivered too often.
const GIVEN_UP: &str = "the queue has given it up";
/// The least delay of a message whose jobs could not be handed on, in seconds.
const NOT_SPLIT_DELAY_S: u32 = 5;

/// How long a job may take that goes on by itself. The batch waits for all of its messages.
const JOB_TIMEOUT: Duration = Duration::from_secs(90);
/// The delay of what cannot be read, or is met by wrong settings, in seconds, once it is older than a deploy takes: a queue gives up what has come a hundred
/// times, and that must take longer than to find a release that can.
const UNREADABLE_RETRY_DELAY_S: u32 = 300;
/// How long a deploy takes, in ms: meanwhile a new object may send to an old consumer.
const DEPLOY_MS: u64 = 600_000;
/// How long the read model has to take a snapshot. One that was left may be written all the same: its version says so to the next try.
const PROJECTION_TAKES: Duration = Duration::from_secs(10);
/// How long the read model waits for the jobs beside it, so that one row says what became of all of them. A slow one holds it up no longer.
const PROJECTION_WAITS: Duration = Duration::from_millis(1500);
/// How long D1 has to say what is known of the jobs of a message.
const LEDGER_ANSWERS: Duration = Duration::from_secs(5);

/// Does the jobs of a batch. Messages of the queue `…-dead` were delivered too often: they become dead letters, but for snapshots that can be
/// written now.
pub async fn consume(batch: &MessageBatch<String>, env: &Env) {
    let is_dead = batch.queue().ends_with("-dead");
    let config = Config::of(env);
    let config = match &config {
        Ok(config) => config,
        Err(what) => {
            log("error", &[("event", "misconfigured".into()), ("error", what.as_str().into())]);
            batch.retry_all_with_options(&delay(UNREADABLE_RETRY_DELAY_S));
            return;
        }
    };
    let together = &Batch::default();
    let work = batch.iter().map(|message| async move {
        // A message that is not text is not ours: nothing can be done with it.
        let Ok(message) = message else { return };
        handle(&message, env, config, (is_dead, together)).await;
    });
    join_all(work).await;
}

fn delay(seconds: u32) -> worker::QueueRetryOptions {
    QueueRetryOptionsBuilder::new().with_delay_seconds(seconds).build()
}

async fn handle(message: &Message<String>, env: &Env, config: &Config, (is_dead, together): (bool, &Batch)) {
    let jobs = match Job::read(message.body()) {
        Ok(jobs) => jobs,
        Err(error) => {
            log("error", &[("event", "job_unreadable".into()), ("error", error.into())]);
            let is_young = now_ms().saturating_sub(message.timestamp().as_millis()) < DEPLOY_MS;
            message.retry_with_options(&delay(if is_young {
                RETRY_DELAY_S
            } else {
                UNREADABLE_RETRY_DELAY_S
            }));
            return;
        }
    };
    let known = within(LEDGER_ANSWERS, "the ledger", KnownJobs::read(env, &jobs, &together.reads)).await;
    let ends = match &known {
        Ok(known) => Work { env, config, known, is_dead, together }.on_all(&jobs).await,
        Err(error) => {
            let known = &KnownJobs::none(env);
            let unasked = async |job| match known {
                Ok(known) => Work { env, config, known, is_dead, together }.unasked(job, error).await,
                Err(error) => unfinished(job, error),
            };
            let unasked = &unasked;
            join_all(jobs.iter().map(|job| async move { (job, unasked(job).await) })).await
        }
    };
    let next: Vec<Next<'_>> = ends.into_iter().filter_map(|(job, end)| end.next(job)).collect();
    let Some(first_s) = next.iter().map(|next| next.after_s).min() else {
        return message.ack();
    };
    // What was given up stays with what has given it up.
    if is_dead || (jobs.len() == 1 && next.iter().all(|next| next.stays(env))) {
        return message.retry_with_options(&delay(first_s));
    }
    match hand_on::send(env, &next).await {
        Ok(()) => message.ack(),
        Err(error) => {
            log("warn", &[("event", "jobs_not_split".into()), ("error", error.to_string().into())]);
            // The other queue may be full.
            message.retry_with_options(&delay(first_s.max(NOT_SPLIT_DELAY_S)));
        }
    }
}

/// What the jobs of one message need.
struct Work<'a> {
    env: &'a Env,
    config: &'a Config,
    known: &'a KnownJobs,
    is_dead: bool,
    together: &'a Batch,
}

/// What the messages of a batch ask of the read model together, and the places for what they send.
#[derive(Default)]
struct Batch {
    reads: Reads,
    writes: Writes,
    slots: Slots,
}

/// How far a job has come.
enum End {
    /// What became of it is recorded.
    Recorded(Disposition),
    /// It is done at its first attempt, with this result: that is still to be recorded.
    Done(String),
}

/// What is done already beside a projection, by the ids of jobs, and goes with it.
type DoneJobs = Map<String, Value>;

impl Work<'_> {
    /// Does all jobs of a message: the read model last, with what became of the others if these are done soon.
    async fn on_all<'j>(&self, jobs: &'j [Job]) -> Vec<(&'j Job, Disposition)> {
        let is_projection = |job: &&Job| job.kind == JobKind::Project;
        let (projections, others): (Vec<&Job>, Vec<&Job>) = jobs.iter().partition(is_projection);
        let mut others =
            pin!(join_all(others.into_iter().map(|job| async move { (job, self.on(job).await) })));
        if projections.is_empty() {
            return self.record_all(others.await, &DoneJobs::new()).await;
        }
        let (mut ends, projected) = match select(&mut others, pin!(Delay::from(PROJECTION_WAITS))).await {
            Either::Left((ends, _)) => {
                let mut done = self.done_for(&projections, &ends);
                let projected = join_all(projections.iter().map(|job| self.project(job, &done))).await;
                if !projected.iter().any(|(_, is_taken)| *is_taken) {
                    done.clear();
                }
                (self.record_all(ends, &done).await, projected)
            }
            Either::Right(_) => {
                let done = DoneJobs::new();
                let projected = join_all(projections.iter().map(|job| self.project(job, &done)));
                let (ends, projected) = join(others, projected).await;
                (self.record_all(ends, &done).await, projected)
            }
        };
        ends.extend(projections.into_iter().zip(projected.into_iter().map(|(end, _)| end)));
        ends
    }

    /// Those of these jobs that are done and can go with the projection of their payment.
    fn done_for(&self, projections: &[&Job], ends: &[(&Job, End)]) -> DoneJobs {
        let mut done = DoneJobs::new();
        let [projection] = projections else { return done };
        let made_at_ms = projection.payload.pointer("/payment/created_at_ms").and_then(Value::as_u64);
        let Some(made_at_ms) = made_at_ms else { return done };
        for (job, end) in ends {
            let is_near = job.staged_at_ms < made_at_ms.saturating_add(IN_PAYMENT_MS);
            if let (End::Done(result), true) = (end, is_near && job.object == projection.object)
                && let Ok(ledger) = Ledger::new(job, self.known)
            {
                ledger.add_to(&mut done, result);
            }
        }
        done
    }

    /// Records what became of jobs, but for those that a projection has taken with it.
    async fn record_all<'j>(
        &self,
        ends: Vec<(&'j Job, End)>,
        taken: &DoneJobs,
    ) -> Vec<(&'j Job, Disposition)> {
        let record = |(job, end): (&'j Job, End)| async move {
            let result = match end {
                End::Recorded(disposition) => return (job, disposition),
                End::Done(result) => result,
            };
            if taken.contains_key(&job.job_id) {
                return (job, is_done(job, &result));
            }
            let recorded = async { Ledger::new(job, self.known)?.done(&result).await };
            match within(LEDGER_ANSWERS, "the ledger", recorded).await {
                Ok(()) => (job, is_done(job, &result)),
                Err(error) => (job, unrecorded(job, &error, result)),
            }
        };
        join_all(ends.into_iter().map(record)).await
    }

    /// Does a job other than a projection.
    async fn on(&self, job: &Job) -> End {
        let span = begin(self.env, job);
        let trace = span.as_ref().map(|span| span.context);
        let end = match !self.is_dead && hand_on::may_be_left(self.env, job) {
            true => self.soon(job, trace).await,
            false => self.whole(job, trace, &Frozen::default()).await,
        };
        ended(span, matches!(end, End::Done(_) | End::Recorded(Disposition::Over)));
        end
    }

    /// Does a job that is not waited for longer than a projection may wait.
    async fn soon(&self, job: &Job, trace: Option<TraceContext>) -> End {
        if !hand_on::may_begin() {
            return End::Recorded(left(job, "its service was slow just now", Apart::default()));
        }
        let frozen = Frozen::default();
        let done = match select(pin!(self.whole(job, trace, &frozen)), Delay::from(PROJECTION_WAITS)).await {
            Either::Left((end, _)) => Some(end),
            Either::Right(_) => None,
        };
        hand_on::email_ended(done.is_some());
        done.unwrap_or_else(|| {
            let sent = Apart { frozen: frozen.get().cloned(), ..Apart::default() };
            End::Recorded(left(job, "not done in time", sent))
        })
    }

    /// What becomes of a job of which the read model has not said whether it is over: an email is sent if its object says that it is not.
    async fn unasked(&self, job: &Job, error: &worker::Error) -> Disposition {
        if self.is_dead {
            return unfinished(job, error);
        }
        if hand_on::may_be_left(self.env, job) {
            return left(job, &error.to_string(), Apart::default());
        }
        if !may_send(self.env, job).await {
            return unfinished(job, error);
        }
        let span = begin(self.env, job);
        let trace = span.as_ref().map(|span| span.context);
        let (frozen, _slot) = (Frozen::default(), self.together.slots.take().await);
        let sent = async {
            let ledger = Ledger::new(job, self.known)?.keeping(&frozen);
            Ok(run(self.env, self.config, job, &ledger, trace).await)
        };
        let end = match within(JOB_TIMEOUT, "the job", sent).await {
            Ok(Ok(Done::Recorded(result))) => unrecorded(job, error, result),
            // How it failed cannot be judged without what is known of it. What was sent may have arrived: it goes out again as it was.
            Ok(Ok(Done::Already) | Err(_)) | Err(_) => match (unfinished(job, error), frozen.get()) {
                (Disposition::Again(seconds), Some(sent)) => {
                    Disposition::Left(seconds, Apart { frozen: Some(sent.clone()), ..Apart::default() })
                }
                (end, _) => end,
            },
        };
        ended(span, matches!(&end, Disposition::Left(_, left) if left.result.is_some()));
        end
    }

    /// Does a job, however long it takes within its time.
    async fn whole(&self, job: &Job, trace: Option<TraceContext>, frozen: &Frozen) -> End {
        let _slot = self.together.slots.take().await;
        match within(JOB_TIMEOUT, "the job", self.end(job, trace, frozen)).await {
            Ok(end) => end,
            Err(error) => End::Recorded(unfinished(job, &error)),
        }
    }

    /// Writes a snapshot into the read model, and with it what is done; and hands on what the shop is to be told of it. Gives whether the read model
    /// has taken it.
    async fn project(&self, job: &Job, done: &DoneJobs) -> (Disposition, bool) {
        let span = begin(self.env, job);
        let projected = async {
            let ledger = Ledger::new(job, self.known)?;
            let (outcome, is_taken) = match snapshot_of(job) {
                // Also where the queue has given it up: the read model may have been away for as long as that took, and to write it is safe.
                Ok(snapshot) => match project(self.env, &snapshot, done, &self.together.writes).await {
                    // Also of one that is older than what is shown: its message may be the only one with these events.
                    Ok(is_taken) => {
                        let told =
                            tell(self.env, self.config, &snapshot, job.staged_at_ms, ledger.now_ms).await;
                        // The read model has it, and it comes again until the shop's events are on their way.
                        (told.map_err(|error| Failure::Unready(error.to_string())), is_taken)
                    }
                    Err(error) => (Err(Failure::Retryable(error.to_string())), false),
                },
                Err(failure) => return Ok((failed(job, &ledger, failure).await?, false)),
            };
            let Err(failure) = outcome else {
                // There is a row only if an attempt failed before.
                if ledger.has_row() {
                    ledger.done("").await?;
                }
                return Ok((is_done(job, "done"), is_taken));
            };
            let failure = match failure {
                Failure::Retryable(error) | Failure::Unready(error) if self.is_dead => {
                    Failure::Permanent(format!("{GIVEN_UP}: {error}"))
                }
                failure => failure,
            };
            Ok((failed(job, &ledger, failure).await?, is_taken))
        };
        let end = match within(PROJECTION_TAKES, "the read model", projected).await {
            Ok(end) => end,
            Err(error) => (unfinished(job, &error), false),
        };
        ended(span, matches!(end, (Disposition::Over, _)));
        end
    }

    /// Does a job and records its outcome, unless it is done at its first attempt. An error means that the outcome was not recorded.
    async fn end(&self, job: &Job, trace: Option<TraceContext>, frozen: &Frozen) -> worker::Result<End> {
        let ledger = Ledger::new(job, self.known)?.keeping(frozen);
        let result = job.apart.as_ref().and_then(|apart| apart.result.clone());
        let done = match (self.is_dead, result) {
            // It was done while the read model did not answer.
            (_, Some(result)) => ledger.begin(None).await.map_err(Failure::from).map(|known| match known {
                Some(_) => Done::Recorded(result),
                None => Done::Already,
            }),
            (true, None) => Err(Failure::Permanent(format!("{GIVEN_UP}: it could not be worked on"))),
            (false, None) => run(self.env, self.config, job, &ledger, trace).await,
        };
        match done {
            Ok(Done::Recorded(result)) if ledger.has_row() => {
                ledger.done(&result).await?;
                Ok(End::Recorded(is_done(job, &result)))
            }
            Ok(Done::Recorded(result)) => Ok(End::Done(result)),
            Ok(Done::Already) => Ok(End::Recorded(over(job))),
            Err(failure) => failed(job, &ledger, failure).await.map(End::Recorded),
        }
    }
}

/// A job's span, as part of the one that has sent it.
fn begin(env: &Env, job: &Job) -> Option<Span> {
    let mut span = trace::begin(job.trace, format!("process {}", job.kind.as_str()), Kind::Consumer)?;
    span.set("messaging.system", "cloudflare_queues");
    span.set("messaging.operation.type", "process");
    let queue = if job.apart.is_some() { Queue::of(job.kind) } else { Queue::Jobs };
    span.set("messaging.destination.name", queue::binding(env, queue, &job.object));
    span.set("paid_once.job_id", job.job_id.as_str());
    Some(span)
}

fn ended(mut span: Option<Span>, is_over: bool) {
    if let Some(span) = &mut span {
        span.set("paid_once.outcome", if is_over { "over" } else { "again" });
        if !is_over {
            span.fail("again");
        }
    }
    trace::end(span);
}

fn snapshot_of(job: &Job) -> Result<Snapshot, Failure> {
    json_text::from_str(&job.payload.to_string()).map_err(|_| Failure::Permanent("not a snapshot".to_owned()))
}

async fn run(
    env: &Env,
    config: &Config,
    job: &Job,
    ledger: &Ledger<'_>,
    trace: Option<TraceContext>,
) -> Result<Done, Failure> {
    match job.kind {
        JobKind::SendReceipt => send_receipt::run(env, config, job, ledger, trace).await,
        JobKind::DeliverWebhook => deliver_webhook::run(env, config, job, ledger, trace).await,
        // They come last, and by another way.
        JobKind::Project => Err(Failure::Permanent("a projection is no job of its own".to_owned())),
        JobKind::Retired => retired(ledger).await,
    }
}
