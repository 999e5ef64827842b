//! Runs an operation: as the engine does it, and counted.

use super::drive::Drive;
use super::host::faults;
use super::traces::executed;
use messages::message::{Execute, ExecuteResult, Finality, VERSION};
use messages::recall::{Recall, Recalled, RecalledHead};
use once::begin::Command;
use once::context::Bug;
use once::id::RequestId;
use once::key::KeyHash;
use once::record::{Finished, StoredResponse};
use once_object::execute::{self, Executed};
use once_object::object::Host as _;
use payments::engine::{Lifecycle, ObjectState};
use payments::flows::customer::{Route, route};
use payments::flows::took_money;
use payments::payment::customer::CustomerRequest;
use payments::payment::operation::{Operation, Refusal};
use runtime::{metrics, now_ms};
use web::trace::Span;

/// How often a request about a customer looks what is to be done: each time another one has come before it.
const ROUNDS_MAX: u32 = 16;
/// When it comes again, in ms, where that was not enough.
const AGAIN_MS: u64 = 1000;
/// What a customer that was made is answered with; and to whoever finds it.
const CREATED: u16 = 201;
const FOUND: u16 = 200;

impl Drive {
    /// Runs an operation under its key, joins the run that is under way, or answers from what was done. Also gives how
    /// long that waited for the provider, in ms, and whether it is final.
    pub(super) async fn run(
        &self,
        ask: Execute,
        span: &mut Option<Span>,
    ) -> Result<(ExecuteResult, u64, Option<Finality>), Bug> {
        match &ask.command.operation {
            Operation::Customer(request) => {
                let request = CustomerRequest::clone(request);
                let (result, provider_ms) = self.put_customer(ask, &request, span).await?;
                Ok((result, provider_ms, None))
            }
            _ => self.run_under_key(ask, span).await,
        }
    }

    /// A customer is to be as it is asked for. The address is the key: here it is found out whether there is something to do, under which
    /// number, and what else has to end before.
    async fn put_customer(
        &self,
        ask: Execute,
        request: &CustomerRequest,
        span: &mut Option<Span>,
    ) -> Result<(ExecuteResult, u64), Bug> {
        let (until_ms, mut provider_ms) = (now_ms().saturating_add(ask.wait_ms), 0);
        for _ in 0..ROUNDS_MAX {
            // An account's own key may be another one than the customer was made with.
            self.host().prepare(None, Some(&ask.command)).await;
            let state = self.store().read()?;
            let empty = ObjectState::empty(self.store().object());
            let routed = route(state.as_deref().unwrap_or(&empty), &ask.command, request, &self.context())?;
            let wait_ms = until_ms.saturating_sub(now_ms());
            let (command, is_its_own) = match routed {
                Route::Stands { response, original_request } => {
                    let stands = ExecuteResult::stored(response, original_request, &ask.command.request_id);
                    if matches!(stands, ExecuteResult::Finished { replayed: true, .. }) {
                        metrics::replayed(false);
                    }
                    return Ok((stands, provider_ms));
                }
                Route::Refused(refusal) => return Ok((ExecuteResult::Refused(refusal), provider_ms)),
                Route::After(other) => (*other, false),
                Route::Run { key_hash, number } => {
                    let operation =
                        Operation::Customer(Box::new(CustomerRequest { number, ..request.clone() }));
                    (Command { key_hash, operation, ..ask.command.clone() }, true)
                }
            };
            let fault = ask.fault.filter(|_| is_its_own);
            let (result, waited_ms, _) =
                self.run_under_key(Execute { command, wait_ms, fault, ..ask.clone() }, span).await?;
            provider_ms = provider_ms.saturating_add(waited_ms);
            match result {
                // Another request came before this one.
                ExecuteResult::Mismatch { .. } | ExecuteResult::Refused(Refusal::Overtaken) => {}
                ExecuteResult::Finished { mut response, original_request, replayed } if is_its_own => {
                    if replayed && response.status == CREATED {
                        response.status = FOUND;
                    }
                    let finished = ExecuteResult::Finished { response, original_request, replayed };
                    return Ok((finished, provider_ms));
                }
                ExecuteResult::Finished { .. } | ExecuteResult::Expired => {}
                result if is_its_own => return Ok((result, provider_ms)),
                // The other one does not end yet, and of this one nothing was begun.
                _ => break,
            }
        }
        Ok((ExecuteResult::InProgress { retry_after_ms: AGAIN_MS }, provider_ms))
    }

    async fn run_under_key(
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
        let Executed { result, joined, provider_ms, is_repeated } = done;
        let is_in_progress = matches!(result, ExecuteResult::InProgress { .. });
        if joined {
            metrics::waited(!is_in_progress && self.took_money(&key_hash));
        }
        match &result {
            ExecuteResult::Finished { replayed: true, .. } if !joined && !is_repeated => {
                metrics::replayed(self.took_money(&key_hash));
            }
            ExecuteResult::InProgress { .. } => metrics::in_progress(),
            ExecuteResult::Mismatch { .. } => metrics::mismatch(),
            _ => {}
        }
        let finality = matches!(result, ExecuteResult::Finished { .. }).then(|| self.finality(&key_hash));
        Ok((result, provider_ms, finality.flatten()))
    }

    /// What is stored under the key of a request that was made before: see [`Recall`]. Counted as any replay is.
    pub(super) fn replay(&self, asked: &Recall, request: &RequestId) -> Result<Option<String>, Bug> {
        let Recall { owner, key_hash, fingerprint, .. } = asked;
        let recalled = self.recall((owner, key_hash, fingerprint), request, |state, key, finished| {
            let StoredResponse { status, headers, body } = finished.response.clone();
            let body = String::from_utf8(body).ok()?;
            let original_request = key.original_request.clone();
            let finality = finality_of(state, key_hash, finished);
            let head = RecalledHead { version: VERSION, status, headers, original_request, finality };
            Some(Recalled { head, body })
        })?;
        let Some((recalled, is_new)) = recalled else { return Ok(None) };
        if is_new {
            metrics::replayed(recalled.head.finality.took_money);
        }
        recalled.to_text().map(Some).map_err(|error| Bug(error.to_string()))
    }

    fn finality(&self, key_hash: &KeyHash) -> Option<Finality> {
        let state = self.store().remembered()?;
        let Lifecycle::Finished(finished) = &state.key_of(key_hash)?.lifecycle else { return None };
        Some(finality_of(&state, key_hash, finished))
    }

    /// For the counts only: nothing depends on it.
    fn took_money(&self, key_hash: &KeyHash) -> bool {
        self.store().remembered().is_some_and(|state| took_money(&state, key_hash))
    }
}

fn finality_of(state: &ObjectState, key_hash: &KeyHash, finished: &Finished) -> Finality {
    let lasts_ms = finished.expires_at_ms.saturating_sub(now_ms());
    Finality { lasts_ms, took_money: took_money(state, key_hash) }
}
