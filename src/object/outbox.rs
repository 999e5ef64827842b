//! What is asked of jobs: that one is done, that what they keep of a person goes, that the read model is told anew.

use super::drive::Drive;
use crate::jobs::purge;
use once::context::Bug;
use payments::transitions::pii::{self, Erased};
use payments::transitions::projection;

impl Drive {
    /// A job is done, or dead: it is forgotten here. What a snapshot had no room for leaves at once.
    pub(super) fn job_done(&self, job_id: &str, audit_through: Option<u64>) -> Result<(), Bug> {
        if self.store().read()?.is_none() {
            return Ok(());
        }
        let ctx = self.context();
        let has_staged = self.store().transaction(&ctx, |rows| {
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
            let Some(rows) = self.store().read()? else { return Ok(Erased::Nothing) };
            let may = pii::may_erase(&rows);
            if may != Erased::Gone {
                return Ok(may);
            }
            let failed = |error: worker::Error| Bug(format!("the ledger: {error}"));
            purge(&self.host().env, &rows.object.to_hex(), &rows.jobs).await.map_err(failed)?;
            let ctx = self.context();
            let erased = self.store().transaction(&ctx, |now| {
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
        if self.store().read()?.is_none() {
            return Ok(());
        }
        let ctx = self.context();
        self.store().transaction(&ctx, |rows| {
            rows.resource.audit_through = 0;
            projection::stage_anew(rows, &ctx);
            Ok::<_, Bug>(())
        })?;
        self.drain().await;
        Ok(())
    }
}
