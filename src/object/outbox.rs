//! What is asked of jobs: which are over, that what they keep of a person goes, that the read model is told anew.

use std::time::Duration;

use super::drive::{Drive, PaymentsHost};
use crate::jobs::purge;
use crate::readmodel::home::home_of;
use messages::job::{OVER, OverRow};
use once::context::Bug;
use once_object::object::Object;
use payments::engine::{ObjectState, StagedJob};
use payments::flows::customer;
use payments::transitions::pii::{self, Erased};
use payments::transitions::projection::{self, Heard};
use runtime::http_client::within;

/// How long the read model has to say which jobs are over.
const SAYS_WITHIN: Duration = Duration::from_secs(5);

impl PaymentsHost {
    /// Forgets those of these jobs of which the read model knows that they are over.
    pub(super) async fn forget_what_is_over(
        &self,
        object: &Object<Self>,
        state: &ObjectState,
        jobs: &[StagedJob],
    ) -> Result<(), Bug> {
        let failed = |error: String| Bug(format!("the read model: {error}"));
        let ids: Vec<&str> = jobs.iter().map(|job| job.job_id.as_str()).collect();
        let ids = serde_json::to_string(&ids).map_err(|error| failed(error.to_string()))?;
        let payment = state.resource.payment.as_ref().map(|payment| payment.id.to_string());
        let values = vec![
            ids.into(),
            state.object.to_hex().into(),
            state.resource.audit_through.into(),
            payment.into(),
        ];
        let asked = async {
            let mut rows = Vec::new();
            for db in home_of(&self.env, state).await?.each() {
                rows.extend(db.first::<OverRow>(OVER, values.clone()).await?);
            }
            Ok(rows)
        };
        let rows = within(SAYS_WITHIN, "asking which jobs are over", asked).await;
        let mut heard = Heard { over: Vec::new(), version: 0, audit_through: 0 };
        let rows = rows.map_err(|error| failed(error.to_string()))?;
        if rows.is_empty() {
            return Ok(());
        }
        for row in rows {
            let over: Vec<String> =
                json_text::from_str(&row.jobs).map_err(|error| failed(error.to_string()))?;
            heard.over.extend(over);
            heard.version = heard.version.max(row.version);
            heard.audit_through = heard.audit_through.max(row.audit_through);
        }
        let ctx = object.context();
        object.store().transaction(&ctx, |state| {
            projection::hear(state, &heard, &ctx);
            Ok(())
        })
    }
}

impl Drive {
    /// A consumer of the release before says that a job is done, or dead: it is forgotten here.
    pub(super) fn job_done(&self, job_id: &str, audit_through: Option<u64>) -> Result<(), Bug> {
        if self.store().read()?.is_none() {
            return Ok(());
        }
        let ctx = self.context();
        let has_staged = self.store().transaction(&ctx, |state| {
            projection::confirm(state, job_id, audit_through, &ctx);
            Ok::<_, Bug>(!state.appended.jobs.is_empty())
        })?;
        if has_staged {
            self.drain_aside();
        }
        Ok(())
    }

    /// Drops personal data: here, with the next snapshot in the read model, and what jobs have kept of it there. That is tried by the alarm until it is done.
    pub(super) async fn erase(&self) -> Result<Erased, Bug> {
        if self.store().read()?.is_none() {
            return Ok(Erased::Nothing);
        }
        let ctx = self.context();
        let erased = self.store().transaction(&ctx, |state| {
            let erased = pii::erase_everywhere(state, &ctx);
            customer::forget_expired(state);
            Ok::<_, Bug>(erased)
        })?;
        let purged = self.purge().await;
        self.drain().await;
        purged.map(|()| erased)
    }

    /// The same where it has failed before. Nothing comes of a failure but that it is tried again later.
    pub(super) async fn purge_again(&self) {
        if let Err(bug) = self.purge().await {
            self.log("error", "purge_failed", &[("error", bug.0.as_str().into())]);
        }
    }

    /// Drops what jobs have kept of what was erased here.
    async fn purge(&self) -> Result<(), Bug> {
        let Some(state) = self.store().known()? else { return Ok(()) };
        let Some(unpurged) = &state.resource.unpurged else { return Ok(()) };
        let failed = |error: worker::Error| Bug(format!("the ledger: {error}"));
        purge(&self.host().env, &state, unpurged).await.map_err(failed)?;
        let ctx = self.context();
        self.store().transaction(&ctx, |state| {
            pii::purged(state, unpurged);
            Ok(())
        })
    }

    /// Sends the read model a snapshot, with all of the audit.
    pub(super) async fn project_anew(&self) -> Result<(), Bug> {
        if self.store().read()?.is_none() {
            return Ok(());
        }
        let ctx = self.context();
        self.store().transaction(&ctx, |state| {
            state.resource.audit_through = 0;
            projection::stage_anew(state, &ctx);
            Ok::<_, Bug>(())
        })?;
        self.drain().await;
        Ok(())
    }
}
