//! A provider that executes each key once, as long as it remembers it.

use std::collections::{BTreeMap, BTreeSet};

use once::call::{
    FrozenRequest, LookUp, Outcome, ProviderCall, ProviderReply, RefusalScope, RetryPolicy, Unconfirmed,
};
use once::domain::{Domain, Provider as _};
use once::flow::Flow;

use crate::fault::Fault;

/// How long a list lags behind, in ms: two looks that count are further apart.
const LAGS_MS: u64 = 240_000;

/// One execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Execution<F: Flow> {
    /// When, in ms.
    pub at_ms: u64,
    /// The call as it was sent.
    pub call: ProviderCall<F>,
    /// What was answered.
    pub answer: F::Answer,
}

struct Kept<A> {
    at_ms: u64,
    request: FrozenRequest,
    answer: A,
}

/// What the provider keeps.
pub(crate) struct Provider<F: Flow> {
    keys: BTreeMap<String, Kept<F::Answer>>,
    /// The keys of what it has failed with and has not completed yet.
    failed: BTreeSet<String>,
    pub(crate) executions: Vec<Execution<F>>,
    /// The keys of what it has refused without keeping that.
    pub(crate) refused: BTreeSet<String>,
}

impl<F: Flow> Provider<F> {
    pub(crate) const fn new() -> Self {
        Self {
            keys: BTreeMap::new(),
            failed: BTreeSet::new(),
            executions: Vec::new(),
            refused: BTreeSet::new(),
        }
    }

    /// What it says to a key that it knows, of which it remembers what came of it for `keeps_ms`. An error is a request under a key that was used
    /// for another one.
    pub(crate) fn known(
        &self,
        key: &str,
        call: &ProviderCall<F>,
        (now_ms, keeps_ms): (u64, u64),
    ) -> Result<Option<Outcome<F::Answer>>, String> {
        // Nothing protects it, not even its key.
        if call.retry_policy == RetryPolicy::AtMostOnce {
            return Ok(None);
        }
        if self.failed.contains(key) {
            return Ok(Some(failed(true)));
        }
        let Some(kept) = self.keys.get(key).filter(|kept| now_ms < kept.at_ms.saturating_add(keeps_ms))
        else {
            return Ok(None);
        };
        match kept.request == call.request {
            true => Ok(Some(definitive::<F>(kept.answer.clone()))),
            false => Err(format!("other bytes were sent under the key {key}")),
        }
    }

    /// It executes a call.
    pub(crate) fn execute(
        &mut self,
        key: &str,
        call: &ProviderCall<F>,
        now_ms: u64,
        answer: F::Answer,
    ) -> Outcome<F::Answer> {
        let kept = Kept { at_ms: now_ms, request: call.request.clone(), answer: answer.clone() };
        self.keys.insert(key.to_owned(), kept);
        self.executions.push(Execution { at_ms: now_ms, call: call.clone(), answer: answer.clone() });
        definitive::<F>(answer)
    }

    /// It fails while it executes, and shows nothing of it until it has completed that.
    pub(crate) fn fail(&mut self, key: &str) -> Outcome<F::Answer> {
        self.failed.insert(key.to_owned());
        failed(false)
    }

    /// It goes on with what it has failed with.
    pub(crate) fn complete(&mut self, key: &str) {
        self.failed.remove(key);
    }

    /// It refuses a call, and keeps nothing of it.
    pub(crate) fn refuse(&mut self, call: &ProviderCall<F>, answer: F::Answer) -> Outcome<F::Answer> {
        self.refused.insert(call.provider_key.clone());
        definitive::<F>(answer)
    }

    /// What it has executed of a call.
    pub(crate) fn executed(&self, call: &ProviderCall<F>) -> Option<&Execution<F>> {
        self.executions.iter().find(|made| made.call.provider_key == call.provider_key)
    }

    /// It is asked what became of a call: one page. What has come since the first one stands before that.
    pub(crate) fn look_up(
        &self,
        call: &ProviderCall<F>,
        fault: Option<Fault>,
        now_ms: u64,
    ) -> LookUp<F::Answer> {
        // Whoever has nothing to ask may well say that it is nowhere.
        if !call.provider.answers_questions() {
            return LookUp::Absent;
        }
        let first_page_ms = call.look_up.as_ref().and_then(|look_up| look_up.after.parse().ok());
        if fault == Some(Fault::LookUpPaged) {
            return LookUp::More { after: first_page_ms.unwrap_or(now_ms).to_string() };
        }
        let lags_ms = if fault == Some(Fault::LookUpLags) { LAGS_MS } else { 0 };
        let until_ms = first_page_ms.unwrap_or(now_ms).min(now_ms.saturating_sub(lags_ms));
        let made = self.executed(call).filter(|made| made.at_ms <= until_ms);
        made.map_or(LookUp::Absent, |made| {
            LookUp::Found(ProviderReply { status: 200, result: made.answer.clone(), request_id: None })
        })
    }
}

fn definitive<F: Domain>(result: F::Answer) -> Outcome<F::Answer> {
    Outcome::Definitive(ProviderReply { status: 200, result, request_id: None })
}

/// What is refused before it is executed.
pub(crate) fn not_executed<A>(scope: RefusalScope) -> Outcome<A> {
    let reason = match scope {
        RefusalScope::Copy => "a rate limit",
        RefusalScope::Send => "the credentials are refused",
        RefusalScope::Key => "the key is unused",
        RefusalScope::NoClient => "no client is there",
    };
    Outcome::NotExecuted { retry_after_ms: None, scope, reason: reason.to_owned() }
}

/// What is taken in, and not decided.
pub(crate) fn taken_in() -> Unconfirmed {
    Unconfirmed { provider_id: None, needs_review: false, reason: "accepted".to_owned() }
}

pub(crate) fn accepted<A>() -> Outcome<A> {
    Outcome::Unconfirmed(taken_in())
}

pub(crate) fn timed_out<A>() -> Outcome<A> {
    Outcome::Unknown { answer_is_stored: false, reason: "no answer in time".to_owned() }
}

pub(crate) fn failed<A>(answer_is_stored: bool) -> Outcome<A> {
    Outcome::Indeterminate { answer_is_stored, reason: "the provider failed".to_owned() }
}

/// A look-up without an answer.
pub(crate) fn no_answer<A>() -> LookUp<A> {
    LookUp::Inconclusive { from_the_start: false, reason: "no answer".to_owned() }
}
