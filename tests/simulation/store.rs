//! The object's disk: rows that change by whole transactions or not at all, and the alarm that is set with them.

use paid_once::machine::context::Context;
use paid_once::machine::record::Lifecycle;
use paid_once::machine::rows::{Appended, Rows};
use paid_once::machine::wake::wake_at;

use crate::auditor::{Commit, KeyView, Writer};

/// What is committed. What is only ever added is not loaded into a transaction.
pub(crate) struct Store {
    pub(crate) rows: Rows,
    pub(crate) alarm_at_ms: Option<u64>,
}

/// A transaction that has run and is not committed.
pub(crate) struct Staged {
    rows: Rows,
    alarm_at_ms: Option<u64>,
}

impl Store {
    pub(crate) const fn new(rows: Rows) -> Self {
        Self { rows, alarm_at_ms: None }
    }

    /// Runs a transaction: an error drops it.
    pub(crate) fn transaction<T, E>(
        &self,
        ctx: &Context,
        body: impl FnOnce(&mut Rows) -> Result<T, E>,
    ) -> Result<(T, Staged), E> {
        let mut rows = self.rows.clone();
        let value = body(&mut rows)?;
        let alarm_at_ms = wake_at(&rows, ctx);
        Ok((value, Staged { rows, alarm_at_ms }))
    }

    /// Commits it, and says what can be seen of it from outside.
    pub(crate) fn commit(&mut self, staged: Staged, writer: Writer, ctx: &Context) -> Commit {
        let Staged { mut rows, alarm_at_ms } = staged;
        let changed = rows != self.rows;
        let Appended { audit, jobs, .. } = std::mem::take(&mut rows.appended);
        self.rows = rows;
        self.alarm_at_ms = alarm_at_ms;
        Commit {
            object_now_ms: ctx.now_ms,
            writer,
            changed,
            keys: self.keys(),
            ride: self.rows.ride.as_ref().map(|ride| ride.status()),
            audit: audit.iter().map(|record| record.action).collect(),
            jobs: jobs.into_iter().map(|job| job.job_id).collect(),
            alarm_at_ms,
        }
    }

    pub(crate) fn has_open_key(&self) -> bool {
        self.rows.keys.iter().any(|key| matches!(key.lifecycle, Lifecycle::Open(_)))
    }

    fn keys(&self) -> Vec<KeyView> {
        let view = |key: &paid_once::machine::record::KeyRecord| {
            let (life, holder) = match &key.lifecycle {
                Lifecycle::Open(open) => ("open", open.lease.as_ref().map(|lease| lease.holder.0.clone())),
                Lifecycle::Finished(_) => ("finished", None),
                Lifecycle::Expired(_) => ("expired", None),
            };
            KeyView {
                key: key.key_id,
                point: key.recovery_point().as_str(),
                life,
                attempt: key.attempt,
                holder,
            }
        };
        self.rows.keys.iter().map(view).collect()
    }
}
