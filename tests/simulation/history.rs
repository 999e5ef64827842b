//! What a history is made of: requests and their answers, runs in memory, and how it ends.

use std::collections::BTreeMap;

use once::context::Times;
use once::record::{FencingToken, StoredResponse};
use once::run::RunEnd;
use once::step::StepError;
use payments::engine::{Action, Begin, Context, Event as Input, LookUp, ObjectState, ProviderCall, Run};
use payments::providers::HttpAnswer;

use crate::faults::{Boundary, Fault, HOUR, MINUTE, SKEW_MAX_MS};
use crate::invariants::{Bytes, Terms, Violation};
use crate::report::Counters;
use crate::saboteur::Saboteur;

/// A request of a client: who, and its how many-th.
pub(crate) type Request = (usize, u32);

/// What a client is told.
#[derive(Clone)]
pub(crate) struct Answer {
    pub(crate) label: &'static str,
    pub(crate) bytes: Option<Bytes>,
}

impl Answer {
    pub(crate) const fn plain(label: &'static str) -> Self {
        Self { label, bytes: None }
    }

    pub(crate) fn stored(response: &StoredResponse) -> Self {
        let bytes = (response.status, response.headers.clone(), response.body.clone());
        Self { label: "stored", bytes: Some(bytes) }
    }

    /// What those who wait for a run are told at its end.
    pub(crate) fn ending(end: &RunEnd) -> Self {
        match end {
            RunEnd::Finished(response) => Self::stored(response),
            RunEnd::Pending { .. } => Self::plain("pending"),
            RunEnd::Interrupted { .. } => Self::plain("interrupted"),
        }
    }

    pub(crate) fn is_definitive(&self) -> bool {
        matches!(self.label, "stored" | "mismatch" | "expired" | "stranger" | "not_started")
    }
}

/// What was decided on a request, in a word; and how it is counted.
pub(crate) const fn label(decision: &Begin) -> (&'static str, &'static str) {
    match decision {
        Begin::Run(_) => ("run", "begin: run"),
        Begin::Replay { .. } => ("stored", "begin: replay"),
        Begin::InProgress { .. } => ("in_progress", "begin: in progress, waits"),
        Begin::Pending { .. } => ("pending", "begin: waits for the provider"),
        Begin::Mismatch { .. } => ("mismatch", "begin: other payload refused"),
        Begin::Expired => ("expired", "begin: expired, refused"),
        Begin::NotStarted => ("not_started", "begin: may not start"),
        Begin::NotOwner => ("stranger", "begin: stranger refused"),
        Begin::Refused(_) => ("refused", "begin: refused by the payment's state"),
    }
}

/// A run in an incarnation's memory.
pub(crate) struct Active {
    pub(crate) run: Run,
    pub(crate) token: FencingToken,
    pub(crate) instance: usize,
    pub(crate) waiting: Vec<Request>,
    /// Whether its steps up to the next thing to wait for are one transaction, as in the Worker, or one each.
    pub(crate) in_turns: bool,
}

impl Active {
    /// A run that has not done anything yet.
    pub(crate) fn new(run: Run, instance: usize, in_turns: bool, waiting: Vec<Request>) -> Self {
        let token = run.token.clone();
        Self { run, token, instance, waiting, in_turns }
    }

    /// One transaction of it.
    pub(crate) fn advance(
        &mut self,
        saboteur: Saboteur,
        state: &mut ObjectState,
        input: Input,
        ctx: &Context,
    ) -> Result<Action, StepError> {
        let action = saboteur.step(&mut self.run, state, input, ctx)?;
        Ok(if self.in_turns { self.go_on(saboteur, action, state, ctx) } else { action })
    }

    /// Its first turn, in the transaction that has begun it.
    pub(crate) fn first_turn(
        &mut self,
        saboteur: Saboteur,
        state: &mut ObjectState,
        ctx: &Context,
    ) -> Action {
        self.go_on(saboteur, Action::Again, state, ctx)
    }

    fn go_on(
        &mut self,
        saboteur: Saboteur,
        action: Action,
        state: &mut ObjectState,
        ctx: &Context,
    ) -> Action {
        self.run.steps_on(action, state, |run, state| saboteur.step(run, state, Input::Go, ctx))
    }
}

/// The runs in all memories, by number.
#[derive(Default)]
pub(crate) struct Runs {
    active: BTreeMap<u32, Active>,
    begun: u32,
}

impl Runs {
    /// A run begins. Gives its number.
    pub(crate) fn begin(&mut self, active: Active) -> u32 {
        self.begun += 1;
        self.active.insert(self.begun, active);
        self.begun
    }

    pub(crate) fn get(&self, number: u32) -> Option<&Active> {
        self.active.get(&number)
    }

    /// Takes one out: it ends, or is [put back](Self::insert).
    pub(crate) fn remove(&mut self, number: u32) -> Option<Active> {
        self.active.remove(&number)
    }

    pub(crate) fn insert(&mut self, number: u32, active: Active) {
        self.active.insert(number, active);
    }

    /// A duplicate waits for the result of the run of its key, if there is one in this incarnation.
    pub(crate) fn join(&mut self, request: Request, instance: usize, key_id: u32) {
        let of_it = |active: &&mut Active| active.instance == instance && active.token.key_id == key_id;
        if let Some(active) = self.active.values_mut().find(of_it) {
            active.waiting.push(request);
        }
    }

    /// A request waits no longer.
    pub(crate) fn leave(&mut self, request: Request) {
        for active in self.active.values_mut() {
            active.waiting.retain(|waiting| *waiting != request);
        }
    }

    /// An incarnation dies with its runs. Gives the requests that waited for them.
    pub(crate) fn die(&mut self, instance: usize) -> Vec<Request> {
        let gone = self.active.extract_if(.., |_, active| active.instance == instance);
        gone.flat_map(|(_, active)| active.waiting).collect()
    }
}

/// A send of which the sender has not heard.
pub(crate) struct Exchange {
    pub(crate) run: u32,
    pub(crate) call: ProviderCall,
}

/// A page of a look-up that is asked for.
pub(crate) struct Asking {
    pub(crate) run: u32,
    pub(crate) call: ProviderCall,
    pub(crate) fault: Option<Fault>,
}

/// What comes back in the place of a page where a fault strikes; nothing does where it is lost.
pub(crate) fn broken_page(fault: Option<Fault>) -> Option<HttpAnswer> {
    match fault {
        Some(Fault::PageError) => Some(plain(500, "{}")),
        Some(Fault::PageRefused) => Some(plain(400, "{}")),
        Some(Fault::PageGarbled) => Some(plain(200, "<html>")),
        _ => None,
    }
}

/// How an answer to a look-up is counted.
pub(crate) const fn look_up_counter(look_up: &LookUp) -> &'static str {
    match look_up {
        LookUp::Found(_) => "look-ups: found",
        LookUp::Tentative(_) => "look-ups: found, not final",
        LookUp::Unconfirmed(_) => "look-ups: found, unconfirmed",
        LookUp::LeftOpen(_) => "look-ups: found, left open",
        LookUp::More { .. } => "look-ups: read on",
        LookUp::Absent => "look-ups: absent",
        LookUp::Identity(_) => "look-ups: of the account",
        LookUp::Inconclusive { .. } | LookUp::NoClient { .. } => "look-ups: inconclusive",
    }
}

/// For how long nothing reaches the object, if this fault is a crash there: before the commit, or after it.
pub(crate) fn crashes(fault: Option<Fault>, at_commit: bool) -> Option<u64> {
    match fault {
        Some(Fault::Crash { committed, dark_ms }) if committed == at_commit => Some(dark_ms),
        _ => None,
    }
}

/// The times that the invariants name.
pub(crate) fn terms(times: &Times) -> Terms {
    Terms {
        lease_ms: times.lease_ms,
        retention_ms: times.retention_ms,
        personal_retention_ms: times.personal_retention_ms,
        alarm_ahead_ms: HOUR.max(times.quiet_ms) + 4 * SKEW_MAX_MS,
    }
}

/// Once faults stop, a key ends within lease, backoff, and the quiet period by two clocks, for each of its calls. The quiet
/// period comes twice where a clock was set back: once before the same key may be sent again, once before "absent" is
/// believed.
pub(crate) const fn ends_within_ms(times: &Times) -> u64 {
    let backoff_ms = 2 * 5 * MINUTE;
    // A second look follows the first after five minutes, and a clock may be set back in between.
    let quiet_ms = 2 * times.quiet_ms + 2 * SKEW_MAX_MS + 5 * MINUTE + 2 * SKEW_MAX_MS;
    times.lease_ms + times.completer_ms + backoff_ms + quiet_ms + 2 * MINUTE
}

/// For how long a key may stay open after the provider has failed by itself: it can hear of that as long as the window is open.
pub(crate) const fn quarantine_ms(times: &Times) -> u64 {
    times.provider_window_ms + times.quarantine_ms + HOUR
}

/// The end of a history.
pub(crate) struct Outcome {
    pub(crate) violations: Vec<Violation>,
    pub(crate) counters: Counters,
    pub(crate) passed: Vec<Boundary>,
}

/// A provider's answer without any header.
pub(crate) fn plain(status: u16, body: &str) -> HttpAnswer {
    HttpAnswer {
        status,
        should_retry: None,
        retry_after_ms: None,
        replayed: false,
        request_id: None,
        body: body.to_owned(),
    }
}

/// An error as Stripe writes it.
pub(crate) fn error(status: u16, kind: &str, code: Option<&str>) -> HttpAnswer {
    let code = code.map_or_else(|| "null".to_owned(), |code| format!("\"{code}\""));
    plain(status, &format!(r#"{{"error":{{"type":"{kind}","code":{code},"message":"refused"}}}}"#))
}
