//! What the user of the harness says, and what is said to them.

use std::collections::BTreeMap;
use std::fmt;

use once::begin::Command;
use once::call::{Outcome, ProviderCall, ProviderReply};
use once::context::{Bug, Context};
use once::domain::{Domain, Provider};
use once::flow::Flow;
use once::id::ObjectId;
use once::object_state::{ObjectState, StagedJob};
use once::record::StoredResponse;
use once::times::Times;

use crate::plan::Plan;
use crate::provider::Execution;

/// What is configured for the flow of a scenario.
pub type Settings<S> = <<S as Scenario>::Flow as Domain>::Settings;
/// A job of the flow of a scenario.
pub type Job<S> = StagedJob<<<S as Scenario>::Flow as Domain>::JobKind>;
/// A provider's answer in the flow of a scenario.
pub type Answer<S> = <<S as Scenario>::Flow as Domain>::Answer;

/// How many keys an object takes, unless the scenario says otherwise. It is what `once-object` begins with.
const KEYS_MAX: u32 = 200;

/// What is played.
pub trait Scenario {
    /// The flow under test.
    type Flow: Flow<Settings: Default>;

    /// The requests, each with the time at which its client sends it first, in ms. A client that gets no final answer asks
    /// again under the same key, and once more long after.
    fn requests(&self) -> Vec<(u64, Command<Self::Flow>)>;

    /// What the provider answers to a call that it executes.
    fn execute(&self, call: &ProviderCall<Self::Flow>) -> Answer<Self>;

    /// Whether the end is right: an error says what is wrong with it.
    fn judge(&self, end: &End<'_, Self::Flow>) -> Result<(), String>;

    /// The object's id.
    fn object(&self) -> ObjectId {
        ObjectId::from_bytes([7; 32])
    }

    /// Whether a client alone has what the provider is sent or asked: a run without one comes to nothing (`NoClient`), as long as a response would
    /// be kept. Afterwards the provider can be asked without.
    fn needs_client(&self) -> bool {
        false
    }

    /// What the provider answers to a call when it refuses the request without keeping that under the key, as many do with what they find to be
    /// invalid: a copy of it that comes later may be executed. `None` where the provider has no such answers.
    fn refuse(&self, _call: &ProviderCall<Self::Flow>) -> Option<Answer<Self>> {
        None
    }

    /// What the provider says to a call whose key it knows, under which it keeps this answer: by default that. Another one may say something that is
    /// no word about the key, such as that the caller must log in.
    fn say_again(
        &self,
        _call: &ProviderCall<Self::Flow>,
        kept: ProviderReply<Answer<Self>>,
    ) -> Outcome<Answer<Self>> {
        Outcome::Definitive(kept)
    }

    /// Whether the provider tells by itself what it has executed, just before its answer comes, and again where that is not taken: the object takes it
    /// by [`settle_by_provider`](ObjectState::settle_by_provider).
    fn tells_by_itself(&self) -> bool {
        false
    }

    /// Whether the provider takes a call in and answers that alone, as with a 202 (`Unconfirmed`): after so many ms it tells by itself how it ended, which is
    /// what [`execute`](Self::execute) says; a refusal, too. `None` where it answers that at once.
    fn accepts_for_ms(&self, _call: &ProviderCall<Self::Flow>) -> Option<u64> {
        None
    }

    /// At which times, in ms, something [happens](Self::happens) in the object beside its runs, such as an event of a provider's that ends no call.
    fn events(&self) -> Vec<u64> {
        Vec::new()
    }

    /// What happens at the time of this number of [`events`](Self::events): one transaction. Whoever brings it repeats it where the incarnation dies, also
    /// after the commit.
    fn happens(
        &self,
        _number: usize,
        _object_state: &mut ObjectState<Self::Flow>,
        _ctx: &Context<Settings<Self>>,
    ) -> Result<(), Bug> {
        Ok(())
    }

    /// Whether the keys at a provider and the ids of jobs are made of the object's id, so that no other object has the same. Not where they are made of
    /// something else that is unique, such as the request's own key, or where they are seen in no place but the object.
    fn names_have_the_object(&self) -> bool {
        true
    }

    /// Whether one operation may have the same done twice: two calls with the same request and of the same kind, under two keys at the provider, the first of
    /// which was no refusal. That is what a call comes to that a flow knows by a name which is not the same in each run.
    fn may_repeat(&self, _first: &ProviderCall<Self::Flow>, _second: &ProviderCall<Self::Flow>) -> bool {
        false
    }

    /// Whether a person may have to say how a call ended, as where a provider that cannot be asked answers nothing. [`Played`](crate::Played) counts how
    /// often one has.
    fn may_need_a_person(&self) -> bool {
        true
    }

    /// Whether it is enough that the newer of two jobs is done, as of those that tell how something stands.
    fn stands_for(&self, _newer: &Job<Self>, _older: &Job<Self>) -> bool {
        false
    }

    /// What is configured for the flow.
    fn settings(&self) -> Settings<Self> {
        Settings::<Self>::default()
    }

    /// How long the provider keeps the key of a call, in ms, whatever the flow believes ([`Provider::window_ms`]): then it executes the same one anew. 0
    /// is one that keeps none, as it is by default where the flow believes in no window: no request reaches that one twice. By default it is no longer
    /// than the window needs, whatever is late.
    fn keeps_ms(&self, call: &ProviderCall<Self::Flow>) -> u64 {
        let times = self.times();
        match call.provider.window_ms(&times) {
            0 => 0,
            window_ms => window_ms.saturating_add(times.quiet_ms),
        }
    }

    /// How many keys the object takes.
    fn keys_max(&self) -> u32 {
        KEYS_MAX
    }

    /// How long after a response has expired the flow forgets its key ([`forget_expired`](ObjectState::forget_expired)), in ms: not before, and at the end
    /// there is none but the object's first one. A client asks again two hours after the retention, and that would begin anew. `None` where it forgets none;
    /// by default what [the flow says](Flow::forgets_after_ms).
    fn forgets_after_ms(&self) -> Option<u64> {
        let (times, settings, keys_max) = (self.times(), self.settings(), self.keys_max());
        Self::Flow::forgets_after_ms(&Context { now_ms: 0, jitter_permille: 0, times, keys_max, settings })
    }

    /// The configured times, which must [fit together](Times::validate). Those of a provider are hours unless the scenario says otherwise, not days: it takes its time to play them.
    fn times(&self) -> Times {
        Times { provider_window_ms: 7_200_000, quarantine_ms: 21_600_000, ..Times::default() }
    }
}

/// How a history ended.
#[derive(Debug)]
pub struct End<'a, F: Flow> {
    /// The object's rows.
    pub object_state: &'a ObjectState<F>,
    /// What the provider has executed, in order.
    pub executions: &'a [Execution<F>],
    /// What was answered, by the key's hash: the object has dropped it by the end.
    pub responses: &'a BTreeMap<String, StoredResponse>,
    /// The jobs that were staged, in order.
    pub staged: &'a [StagedJob<F::JobKind>],
    /// The ids of the jobs that were handed out, each as often as it was.
    pub jobs: &'a [String],
}

/// A promise that was broken, and how to see it again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// What went wrong.
    pub what: String,
    /// The faults of the history.
    pub plan: Plan,
    /// What happened, line by line.
    pub history: Vec<String>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.what)?;
        writeln!(f, "with {}", self.plan)?;
        self.history.iter().try_for_each(|line| writeln!(f, "  {line}"))
    }
}

impl std::error::Error for Violation {}
