//! A provider that executes each key once, as long as it remembers it.

use std::collections::BTreeMap;

use once::call::{FrozenRequest, LookUp, Outcome, ProviderCall, ProviderReply, RefusalScope};
use once::domain::Domain;
use once::flow::Flow;

/// How long a key is remembered, in ms: then the same key is executed anew, as Stripe has it.
const KEEPS_MS: u64 = 24 * 3_600_000;

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
    pub(crate) executions: Vec<Execution<F>>,
}

impl<F: Flow> Provider<F> {
    pub(crate) const fn new() -> Self {
        Self { keys: BTreeMap::new(), executions: Vec::new() }
    }

    /// A copy of a send arrives under a key. An error is a request under a key that was used for another one.
    pub(crate) fn arrive(
        &mut self,
        key: &str,
        call: &ProviderCall<F>,
        now_ms: u64,
        execute: impl FnOnce(&ProviderCall<F>) -> F::Answer,
    ) -> Result<Outcome<F::Answer>, String> {
        if let Some(kept) = self.keys.get(key).filter(|kept| now_ms < kept.at_ms + KEEPS_MS) {
            return match kept.request == call.request {
                true => Ok(definitive::<F>(kept.answer.clone())),
                false => Err(format!("other bytes were sent under the key {key}")),
            };
        }
        let answer = execute(call);
        self.keys.insert(
            key.to_owned(),
            Kept { at_ms: now_ms, request: call.request.clone(), answer: answer.clone() },
        );
        self.executions.push(Execution { at_ms: now_ms, call: call.clone(), answer: answer.clone() });
        Ok(definitive::<F>(answer))
    }

    /// It is asked what became of a call.
    pub(crate) fn look_up(&self, call: &ProviderCall<F>) -> LookUp<F::Answer> {
        let made = self.executions.iter().find(|made| made.call.provider_key == call.provider_key);
        made.map_or(LookUp::Absent, |made| {
            LookUp::Found(ProviderReply { status: 200, result: made.answer.clone(), request_id: None })
        })
    }
}

fn definitive<F: Domain>(result: F::Answer) -> Outcome<F::Answer> {
    Outcome::Definitive(ProviderReply { status: 200, result, request_id: None })
}

pub(crate) fn limited<A>() -> Outcome<A> {
    Outcome::NotExecuted {
        retry_after_ms: None,
        scope: RefusalScope::Copy,
        reason: "a rate limit".to_owned(),
    }
}

pub(crate) fn not_sent<A>() -> Outcome<A> {
    Outcome::NotExecuted {
        retry_after_ms: None,
        scope: RefusalScope::NoClient,
        reason: "no client is there".to_owned(),
    }
}

pub(crate) fn timed_out<A>() -> Outcome<A> {
    Outcome::Unknown { answer_is_stored: false, reason: "no answer in time".to_owned() }
}

pub(crate) fn failed<A>() -> Outcome<A> {
    Outcome::Indeterminate { answer_is_stored: false, reason: "the provider failed".to_owned() }
}
