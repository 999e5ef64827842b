//! Sends what is staged to the queue, after the commit. A crash on the way leaves it staged: the alarm sends it again.

use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::{Either, join_all, select};
use worker::{Date, Delay, MessageBuilder, QueueContentType};

use super::drive::Drive;
use super::log::audit_after;
use crate::jobs::purge;
use messages::job::{Job, VERSION, batches};
use messages::snapshot::{AUDIT_MAX, snapshot};
use once::context::Bug;
use once::outbox;
use payments::flows::engine::{Rows, StagedJob};
use payments::payment::pii::{self, Erased};
use payments::payment::projection;
use payments::payment::records::JobKind;
use runtime::http_client::within;
use runtime::metrics;

/// How long a run that has just begun has to end before the read model learns that it is open.
const PATIENCE: Duration = Duration::from_secs(1);

/// What is given to the queue at once.
struct Batch {
    jobs: Vec<StagedJob>,
    /// Of each job, in their order.
    texts: Vec<String>,
}

impl Drive {
    /// Sends what is staged, all of it. A failure leaves it to the alarm.
    pub(super) async fn drain(&self) {
        if self.draining.replace(true) {
            return;
        }
        let drained = self.send_all().await;
        self.draining.set(false);
        if let Err(bug) = drained {
            self.log("error", "outbox_failed", &[("error", bug.0.as_str().into())]);
        }
    }

    /// The same, without anybody waiting for it.
    pub(super) fn drain_aside(self: &Rc<Self>) {
        let drive = Rc::clone(self);
        worker::wasm_bindgen_futures::spawn_local(async move { drive.drain().await });
    }

    /// Waits for a run's end. The read model learns of one that takes long, so that a sweep finds it should it never end.
    pub(super) async fn watch<T>(self: &Rc<Self>, run: impl Future<Output = T>) -> T {
        match select(pin!(run), Delay::from(PATIENCE)).await {
            Either::Left((end, _)) => end,
            Either::Right(((), run)) => {
                self.drain_aside();
                run.await
            }
        }
    }

    async fn send_all(&self) -> Result<(), Bug> {
        loop {
            let Some(rows) = self.store.read()? else { return Ok(()) };
            let jobs = outbox::due(&rows, &self.context());
            if jobs.is_empty() {
                return Ok(());
            }
            let batches = self.batches(&rows, jobs)?;
            let taken = join_all(batches.iter().map(|batch| self.send(batch))).await;
            let ctx = self.context();
            self.store.transaction(&ctx, |rows| {
                for (batch, taken) in batches.iter().zip(&taken) {
                    outbox::sent(rows, &batch.jobs, taken.is_ok(), &ctx);
                }
                Ok::<_, Bug>(())
            })?;
            taken.into_iter().collect::<Result<(), Bug>>()?;
        }
    }

    /// The projection leaves apart: should the queue refuse it, it holds up no other job.
    fn batches(&self, rows: &Rows, jobs: Vec<StagedJob>) -> Result<Vec<Batch>, Bug> {
        let mut messages = Vec::new();
        for job in jobs {
            let text = self.text(rows, &job)?;
            messages.push((job, text));
        }
        let (projections, others): (Vec<_>, Vec<_>) =
            messages.into_iter().partition(|(job, _)| job.kind == JobKind::Project);
        let apart =
            [others, projections].into_iter().flat_map(|messages| batches(messages, |(_, text)| text));
        Ok(apart.map(|batch| batch.into_iter().unzip()).map(|(jobs, texts)| Batch { jobs, texts }).collect())
    }

    async fn send(&self, batch: &Batch) -> Result<(), Bug> {
        let failed = |error: worker::Error| Bug(format!("the queue: {error}"));
        let queue = self.env.queue("JOBS").map_err(failed)?;
        let mut messages = Vec::new();
        for text in &batch.texts {
            messages.push(MessageBuilder::new(text).content_type(QueueContentType::Text).build());
        }
        let takes = Duration::from_millis(outbox::QUEUE_TAKES_MS);
        within(takes, "sending", queue.send_batch(messages)).await.map_err(failed)?;
        metrics::queued(batch.jobs.len());
        Ok(())
    }

    fn text(&self, rows: &Rows, job: &StagedJob) -> Result<String, Bug> {
        let message = Job {
            version: VERSION,
            job_id: job.job_id.clone(),
            kind: job.kind,
            object: rows.object.to_hex(),
            payload: job.payload.clone(),
            staged_at_ms: job.staged_at_ms,
        };
        match job.kind {
            JobKind::Project => {
                let audit = audit_after(&self.store, rows.resource.audit_through, AUDIT_MAX)?;
                message.projecting(snapshot(rows, audit, Date::now().as_millis()))
            }
            JobKind::SendReceipt | JobKind::SendMessage => serde_json::to_string(&message),
        }
        .map_err(|error| Bug(error.to_string()))
    }

    /// A job is done, or dead: it is forgotten here. What a snapshot had no room for leaves at once.
    pub(super) fn confirm(self: &Rc<Self>, job_id: &str, audit_through: Option<u64>) -> Result<(), Bug> {
        if self.store.read()?.is_none() {
            return Ok(());
        }
        let ctx = self.context();
        let has_staged = self.store.transaction(&ctx, |rows| {
            projection::confirm(rows, job_id, audit_through, &ctx);
            Ok::<_, Bug>(!rows.appended.jobs.is_empty())
        })?;
        if has_staged {
            self.drain_aside();
        }
        Ok(())
    }

    /// Drops personal data: first what jobs have kept of it, as long as it is known here which these are; then here, and with
    /// the next snapshot in the read model.
    pub(super) async fn erase(&self) -> Result<Erased, Bug> {
        let erased = loop {
            let Some(rows) = self.store.read()? else { return Ok(Erased::Nothing) };
            let may = pii::may_erase(&rows);
            if may != Erased::Gone {
                return Ok(may);
            }
            let failed = |error: worker::Error| Bug(format!("the ledger: {error}"));
            purge(&self.env, &rows.object.to_hex(), &rows.jobs).await.map_err(failed)?;
            let ctx = self.context();
            let erased = self.store.transaction(&ctx, |now| {
                if now.jobs.iter().any(|job| rows.jobs.iter().all(|purged| purged.job_id != job.job_id)) {
                    return Ok(None);
                }
                let erased = pii::erase(now, &ctx);
                if erased == Erased::Gone {
                    // Also what an earlier snapshot may have shown.
                    projection::stage_anew(now, &ctx);
                }
                Ok::<_, Bug>(Some(erased))
            })?;
            // Otherwise something was staged meanwhile.
            if let Some(erased) = erased {
                break erased;
            }
        };
        self.drain().await;
        Ok(erased)
    }

    /// Sends the read model a snapshot, with all of the audit.
    pub(super) async fn project_anew(&self) -> Result<(), Bug> {
        if self.store.read()?.is_none() {
            return Ok(());
        }
        let ctx = self.context();
        self.store.transaction(&ctx, |rows| {
            rows.resource.audit_through = 0;
            projection::stage_anew(rows, &ctx);
            Ok::<_, Bug>(())
        })?;
        self.drain().await;
        Ok(())
    }
}
