//! Runs an operation: as the engine does it, counted, and told in the words of the messages between the Workers.

use super::drive::Drive;
use super::host::faults;
use messages::message::{Execute, ExecuteResult};
use once::context::Bug;
use once::key::KeyHash;
use once_object::execute::{self, Executed};
use runtime::metrics;

impl Drive {
    /// Runs an operation under its key, joins the run that is under way, or answers from what was done. Also gives how
    /// long that waited for the provider, in ms.
    pub(super) async fn run(&self, ask: Execute) -> Result<(ExecuteResult, u64), Bug> {
        let key_hash = ask.command.key_hash.clone();
        let Executed { result, joined, provider_ms } = self
            .execute(execute::Execute {
                command: ask.command,
                wait_ms: ask.wait_ms,
                is_counted: ask.is_counted,
                faults: ask.fault.map(faults),
            })
            .await?;
        let is_in_progress = matches!(result, execute::ExecuteResult::InProgress { .. });
        if joined {
            metrics::waited(!is_in_progress && self.took_money(&key_hash));
        }
        Ok((
            match result {
                execute::ExecuteResult::Finished { response, original_request, replayed } => {
                    if replayed && !joined {
                        metrics::replayed(self.took_money(&key_hash));
                    }
                    ExecuteResult::Finished { response, original_request, replayed }
                }
                execute::ExecuteResult::InProgress { retry_after_ms } => {
                    metrics::in_progress();
                    ExecuteResult::InProgress { retry_after_ms }
                }
                execute::ExecuteResult::Pending { retry_after_ms, in_doubt } => {
                    ExecuteResult::Pending { retry_after_ms, in_doubt }
                }
                execute::ExecuteResult::Interrupted { retry_after_ms } => {
                    ExecuteResult::Interrupted { retry_after_ms }
                }
                execute::ExecuteResult::Mismatch { fields } => {
                    metrics::mismatch();
                    ExecuteResult::Mismatch { fields }
                }
                execute::ExecuteResult::Expired => ExecuteResult::Expired,
                execute::ExecuteResult::NotStarted => ExecuteResult::NotStarted,
                execute::ExecuteResult::NotOwner => ExecuteResult::NotOwner,
                execute::ExecuteResult::Refused(refusal) => ExecuteResult::Refused(refusal),
                execute::ExecuteResult::RateLimited => ExecuteResult::RateLimited,
            },
            provider_ms,
        ))
    }

    /// For the counts only: nothing depends on it.
    fn took_money(&self, key_hash: &KeyHash) -> bool {
        self.store()
            .read()
            .is_ok_and(|rows| rows.is_some_and(|rows| payments::flows::took_money(&rows, key_hash)))
    }
}
