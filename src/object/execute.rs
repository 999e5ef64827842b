//! Runs an operation: as the engine does it, and counted.

use super::drive::Drive;
use super::host::faults;
use super::traces::executed;
use messages::message::{Execute, ExecuteResult, Finality};
use once::context::Bug;
use once::key::KeyHash;
use once_object::execute::{self, Executed};
use payments::engine::Lifecycle;
use payments::flows::took_money;
use runtime::{metrics, now_ms};
use web::trace::Span;

impl Drive {
    /// Runs an operation under its key, joins the run that is under way, or answers from what was done. Also gives how
    /// long that waited for the provider, in ms, and whether it is final.
    pub(super) async fn run(
        &self,
        mut ask: Execute,
        span: &mut Option<Span>,
    ) -> Result<(ExecuteResult, u64, Option<Finality>), Bug> {
        ask.command.trace = span.as_ref().map(|span| span.context);
        let key_hash = ask.command.key_hash.clone();
        let done = self
            .execute(execute::Execute {
                command: ask.command,
                wait_ms: ask.wait_ms,
                is_counted: ask.is_counted,
                faults: ask.fault.map(faults),
            })
            .await?;
        if let Some(span) = span {
            executed(span, &done, self.store().remembered().as_deref(), &key_hash);
        }
        let Executed { result, joined, provider_ms } = done;
        let is_in_progress = matches!(result, ExecuteResult::InProgress { .. });
        if joined {
            metrics::waited(!is_in_progress && self.took_money(&key_hash));
        }
        match &result {
            ExecuteResult::Finished { replayed: true, .. } if !joined => {
                metrics::replayed(self.took_money(&key_hash));
            }
            ExecuteResult::InProgress { .. } => metrics::in_progress(),
            ExecuteResult::Mismatch { .. } => metrics::mismatch(),
            _ => {}
        }
        let finality = matches!(result, ExecuteResult::Finished { .. }).then(|| self.finality(&key_hash));
        Ok((result, provider_ms, finality.flatten()))
    }

    fn finality(&self, key_hash: &KeyHash) -> Option<Finality> {
        let rows = self.store().remembered()?;
        let Lifecycle::Finished(finished) = &rows.key_of(key_hash)?.lifecycle else { return None };
        let lasts_ms = finished.expires_at_ms.saturating_sub(now_ms());
        Some(Finality { lasts_ms, took_money: took_money(&rows, key_hash) })
    }

    /// For the counts only: nothing depends on it.
    fn took_money(&self, key_hash: &KeyHash) -> bool {
        self.store().remembered().is_some_and(|rows| took_money(&rows, key_hash))
    }
}
