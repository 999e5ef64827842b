//! The one loop that brings an operation to its end, whoever asks: a request, a duplicate, the alarm.

use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{Either, select};
use once::alarm::{Forgotten, forget};
use once::begin::{Begin, Command, KeyRoute, begin, bind, decided, ended};
use once::context::{Bug, Context, Times};
use once::fingerprint::Fingerprint;
use once::flow::{Flow, ObjectLimit};
use once::id::{ObjectId, Owner, RequestId};
use once::key::KeyHash;
use once::object_state::ObjectState;
use once::outbox;
use once::record::{FencingToken, Finished, KeyRecord};
use once::run::{Action, Event, Run, RunEnd};
use once::step::StepError;
use worker::Delay;

use super::execute::{Execute, ExecuteResult, Executed, Faults};
use super::object::{Answer, Ended, Host, Live, Object, Refusal, Running, Settings};
use super::runtime::now_ms;
use super::store::Unreadable;

/// How long a run that has just begun has to end before what it has staged so far leaves.
const PATIENCE: Duration = Duration::from_secs(1);

/// What was decided on a request, with the first turn of what is to run.
type Begun<F> = (Begin<F>, Option<(Run<F>, Action<F>)>);

impl<H: Host> Object<H> {
    /// Runs an operation under its key, joins the run that is under way, or answers from what was done.
    ///
    /// # Errors
    /// Where the storage fails, or the state cannot be. What was committed stands, and the same request may come again.
    pub async fn execute(self: &Rc<Self>, ask: Execute<H::Flow>) -> Result<Executed<H::Flow>, Bug> {
        let mut state = self.store.read()?;
        if self.host.prepare(state.as_deref(), Some(&ask.command)).await {
            state = self.store.read()?;
        }
        let patience_until_ms = now_ms().saturating_add(ask.wait_ms);
        let ctx = self.context_until(patience_until_ms);
        let at_once = |result| Ok(Executed { result, joined: false, provider_ms: 0, is_repeated: false });
        let decided =
            state.as_ref().and_then(|state| Some((decided(state, &ask.command, &self.me, &ctx)?, state)));
        let (begun, first_turn) = match decided {
            Some((begun, state)) => {
                self.store.ensure_alarm(state, &ctx)?;
                (begun, None)
            }
            None => {
                let is_known = state.is_some_and(|state| state.key_of(&ask.command.key_hash).is_some());
                match self.begin(&ask, is_known, patience_until_ms).await? {
                    Some(begun) => begun,
                    None => return at_once(ExecuteResult::RateLimited),
                }
            }
        };
        at_once(match begun {
            Begin::Run(token) => {
                let key_id = token.key_id;
                let (run, action) = first_turn.unwrap_or_else(|| {
                    let fail_at = ask.faults.as_ref().map_or(&[][..], |faults| faults.fail_at);
                    (Run::new(token, patience_until_ms, fail_at), Action::Again)
                });
                let Ended { end, provider_ms } = self.start(run, action, ask.faults).await?;
                let result = self.result(end, key_id, None)?;
                return Ok(Executed { result, joined: false, provider_ms, is_repeated: false });
            }
            Begin::InProgress { key_id, lease_left_ms } => {
                return self.join(key_id, lease_left_ms, &ask).await;
            }
            Begin::Replay { key_id, response, original_request } => {
                let request = &ask.command.request_id;
                let is_repeated = original_request == *request || !self.count_replay(key_id, request);
                let result = ExecuteResult::stored(response, original_request, request);
                return Ok(Executed { result, joined: false, provider_ms: 0, is_repeated });
            }
            Begin::Pending { retry_at_ms, in_doubt } => {
                ExecuteResult::Pending { retry_after_ms: from_now(retry_at_ms), in_doubt }
            }
            Begin::Mismatch { fields } => ExecuteResult::Mismatch { fields },
            Begin::Expired => ExecuteResult::Expired,
            Begin::NotStarted => ExecuteResult::NotStarted,
            Begin::NotOwner => ExecuteResult::NotOwner,
            Begin::Refused(refusal) => ExecuteResult::Refused(refusal),
        })
    }

    /// The stored response of a key that has ended, for the request that the key stands for: the same as [`Self::execute`] would give, and counted like
    /// it, without waiting for anything. `read` turns the record into `T`; the flag beside it says whether this replay is counted for the first time.
    /// `None` for any other request: it is to be executed.
    ///
    /// # Errors
    /// Where the storage fails.
    pub fn recall<T>(
        &self,
        asked: (&Owner, &KeyHash, &Fingerprint),
        request: &RequestId,
        read: impl FnOnce(&ObjectState<H::Flow>, &KeyRecord<H::Flow>, &Finished) -> Option<T>,
    ) -> Result<Option<(T, bool)>, Bug> {
        let Some(state) = self.store.read()? else { return Ok(None) };
        let ctx = self.context();
        let Some((key, finished)) = ended(&state, asked, ctx.now_ms) else { return Ok(None) };
        let Some(said) = read(&state, key, finished) else { return Ok(None) };
        self.store.ensure_alarm(&state, &ctx)?;
        Ok(Some((said, self.count_replay(key.key_id, request))))
    }

    /// The decision, once the account's rate allows it; `None` if that does not. Only admitted operations are counted. The lock keeps
    /// duplicates that come at once from being counted each.
    async fn begin(
        &self,
        ask: &Execute<H::Flow>,
        is_known: bool,
        patience_until_ms: u64,
    ) -> Result<Option<Begun<H::Flow>>, Bug> {
        let _turn = match ask.is_counted || is_known {
            true => None,
            false => {
                let turn = self.admission.lock().await;
                if self.would_start(&ask.command)? && !self.host.may_start(&ask.command.owner).await {
                    return Ok(None);
                }
                Some(turn)
            }
        };
        let takes_turn = ask.faults.is_none();
        match self.begin_now(&ask.command, patience_until_ms, takes_turn) {
            Err(bug) if takes_turn => {
                self.turn_failed(&bug);
                self.begin_now(&ask.command, patience_until_ms, false).map(Some)
            }
            begun => begun.map(Some),
        }
    }

    fn begin_now(
        &self,
        command: &Command<H::Flow>,
        patience_until_ms: u64,
        takes_turn: bool,
    ) -> Result<Begun<H::Flow>, Bug> {
        let ctx = self.context_until(patience_until_ms);
        let begun = self.store.begin(&ctx, |state| {
            let begun = begin(state, command, &self.me, &ctx)?;
            let first_turn = match &begun {
                Begin::Run(token) if takes_turn => {
                    let mut run = Run::new(token.clone(), patience_until_ms, &[]);
                    let action = run.first_turn(state, &ctx);
                    Some((run, action))
                }
                _ => None,
            };
            Ok::<_, Bug>((begun, first_turn))
        })?;
        Ok(begun.unwrap_or_else(|Unreadable(bug)| {
            self.log("warn", "begin_unreadable", &[("error", bug.0.into())]);
            (Begin::Refused(H::Flow::limit_reached(ObjectLimit::Unreadable)), None)
        }))
    }

    /// What a request is decided with that waits until then.
    fn context_until(&self, patience_until_ms: u64) -> Context<Settings<H>> {
        let ctx = self.context();
        let wait_ms = patience_until_ms.saturating_sub(ctx.now_ms);
        Context { times: Times { wait_ms, ..ctx.times }, ..ctx }
    }

    /// Whether a request would begin something new, as the rows are now. Nothing is written.
    fn would_start(&self, command: &Command<H::Flow>) -> Result<bool, Bug> {
        let mut state = self
            .store
            .read()?
            .map_or_else(|| ObjectState::empty(self.store.object()), |state| ObjectState::clone(&state));
        let is_known = state.key_of(&command.key_hash).is_some();
        Ok(!is_known && matches!(begin(&mut state, command, &self.me, &self.context())?, Begin::Run(_)))
    }

    /// Binds a key, in the key's own object, to the object in which its operation runs. A binding stays for good, whatever becomes of the operation, so
    /// one that is new `is_counted` against the account's rate: it is given whether it was; `None` where that does not allow it.
    ///
    /// # Errors
    /// Where the storage fails.
    pub async fn bind(
        &self,
        command: &Command<H::Flow>,
        object: ObjectId,
        is_counted: bool,
    ) -> Result<Option<(KeyRoute, bool)>, Bug> {
        // One at a time, or many at once would all be counted for the one that is bound.
        let _turn = self.admission.lock().await;
        let counts = is_counted && !self.stands_for_something(&command.key_hash)?;
        if counts && !self.host.may_start(&command.owner).await {
            return Ok(None);
        }
        let ctx = self.context();
        self.store
            .transaction(&ctx, |state| Ok(bind(state, command, object, &ctx)))
            .map(|route| Some((route, counts)))
    }

    /// Whether a key was used or bound here.
    fn stands_for_something(&self, key_hash: &KeyHash) -> Result<bool, Bug> {
        Ok(self.store.read()?.is_some_and(|state| {
            state.key_of(key_hash).is_some() || state.bindings.iter().any(|bound| bound.key_hash == *key_hash)
        }))
    }

    /// Drops a finished key's response before its time.
    ///
    /// # Errors
    /// Where the storage fails.
    pub fn forget(&self, owner: &Owner, key_hash: &KeyHash) -> Result<Forgotten, Bug> {
        if self.store.read()?.is_none() {
            return Ok(Forgotten::Unknown);
        }
        let ctx = self.context();
        self.store.transaction(&ctx, |state| Ok(forget(state, owner, key_hash, &ctx)))
    }

    /// A job is done, or dead: it is forgotten here.
    ///
    /// # Errors
    /// Where the storage fails: the job is sent again.
    pub fn confirm(&self, job_id: &str) -> Result<(), Bug> {
        if self.store.read()?.is_none() {
            return Ok(());
        }
        let ctx = self.context();
        self.store.transaction(&ctx, |state| {
            outbox::confirm(state, job_id);
            Ok(())
        })
    }

    /// Waits, for a bounded time, for the run that another request has begun.
    async fn join(
        &self,
        key_id: u32,
        lease_left_ms: u64,
        ask: &Execute<H::Flow>,
    ) -> Result<Executed<H::Flow>, Bug> {
        let in_progress = |joined| {
            let result = ExecuteResult::InProgress { retry_after_ms: lease_left_ms.min(1000) };
            Ok(Executed { result, joined, provider_ms: 0, is_repeated: false })
        };
        let live = self.running.borrow().get(&key_id).cloned();
        let Some(Live { running, joined, .. }) = live.filter(|_| ask.wait_ms > 0) else {
            return in_progress(false);
        };
        let request = &ask.command.request_id;
        let is_its_own = self.original_request(key_id)? == *request;
        if !is_its_own {
            joined.borrow_mut().push(request.clone());
        }
        match select(running, Delay::from(Duration::from_millis(ask.wait_ms))).await {
            Either::Left((ended, _)) => {
                let Ended { end, provider_ms } = ended?;
                let result = self.result(end, key_id, Some(request))?;
                Ok(Executed { result, joined: !is_its_own, provider_ms, is_repeated: false })
            }
            Either::Right(_) => {
                joined.borrow_mut().retain(|other| other != request);
                in_progress(!is_its_own)
            }
        }
    }

    /// Whether it was not counted before.
    fn count_replay(&self, key_id: u32, request: &RequestId) -> bool {
        self.store.replayed(key_id, request, &self.context()).unwrap_or_else(|bug| {
            self.log("error", "replays_not_counted", &[("error", bug.0.as_str().into())]);
            true
        })
    }

    /// The request that has opened a key. It does not change.
    fn original_request(&self, key_id: u32) -> Result<RequestId, Bug> {
        let state = self.store.known()?;
        let first = state.and_then(|state| state.key(key_id).map(|key| key.original_request.clone()));
        first.ok_or_else(|| Bug(format!("no key {key_id}")))
    }

    /// What the end of a run is told as: to the request that ran, or to one that has joined it.
    fn result(
        &self,
        end: RunEnd,
        key_id: u32,
        joined: Option<&RequestId>,
    ) -> Result<ExecuteResult<Refusal<H>>, Bug> {
        Ok(match end {
            RunEnd::Finished(response) => {
                let original_request = self.original_request(key_id)?;
                match joined {
                    Some(request) => ExecuteResult::stored(response, original_request, request),
                    None => ExecuteResult::Finished { response, original_request, replayed: false },
                }
            }
            RunEnd::Pending { retry_at_ms, in_doubt } => {
                ExecuteResult::Pending { retry_after_ms: from_now(retry_at_ms), in_doubt }
            }
            RunEnd::Interrupted { retry_at_ms } => {
                ExecuteResult::Interrupted { retry_after_ms: from_now(retry_at_ms) }
            }
        })
    }

    /// Begins a run and shares it: the caller may vanish, the run goes on.
    pub(super) fn start(
        self: &Rc<Self>,
        run: Run<H::Flow>,
        action: Action<H::Flow>,
        faults: Option<Faults<H::Flow>>,
    ) -> Running {
        let FencingToken { key_id, attempt, .. } = run.token;
        let token = run.token.clone();
        if let Some(key) = self.store.remembered().as_ref().and_then(|state| state.key(key_id)) {
            self.host.run_began(key, &token);
        }
        let object = Rc::clone(self);
        let joined = Rc::new(RefCell::new(Vec::new()));
        let waiting = Rc::clone(&joined);
        let running = async move {
            let provider_ms = Cell::new(0);
            let end = object.watch(object.to_the_end(run, action, faults, &provider_ms)).await;
            object.host.run_ended(&token, &end);
            let mut runs = object.running.borrow_mut();
            if runs.get(&key_id).is_some_and(|newest| newest.attempt == attempt) {
                runs.remove(&key_id);
            }
            drop(runs);
            if matches!(end, Ok(RunEnd::Finished(_))) {
                // Those who have waited get its response: they are replays, too.
                for request in waiting.borrow().iter() {
                    object.count_replay(key_id, request);
                }
            }
            if let Err(bug) = &end {
                let fields = [("attempt", attempt.into()), ("error", bug.0.as_str().into())];
                object.log_of(key_id, "error", "run_failed", &fields);
            }
            object.drain_aside();
            end.map(|end| Ended { end, provider_ms: provider_ms.get() })
        }
        .boxed_local()
        .shared();
        self.running.borrow_mut().insert(key_id, Live { attempt, running: running.clone(), joined });
        worker::wasm_bindgen_futures::spawn_local(running.clone().map(|_| ()));
        running
    }

    /// Waits for a run's end. What it has staged so far leaves if it takes long.
    async fn watch<T>(self: &Rc<Self>, run: impl Future<Output = T>) -> T {
        match select(pin!(run), Delay::from(PATIENCE)).await {
            Either::Left((end, _)) => end,
            Either::Right(((), run)) => {
                self.drain_aside();
                run.await
            }
        }
    }

    async fn to_the_end(
        &self,
        mut run: Run<H::Flow>,
        mut action: Action<H::Flow>,
        faults: Option<Faults<H::Flow>>,
        provider_ms: &Cell<u64>,
    ) -> Result<RunEnd, Bug> {
        loop {
            let began_at_ms = now_ms();
            let is_call = matches!(action, Action::Send(_) | Action::LookUp(_));
            let event = match action {
                Action::Again => Event::Go,
                Action::Send(call) => Event::Outcome(call.call_id, self.send(&call).await),
                Action::LookUp(call) => Event::LookedUp(call.call_id, self.look_up(&call).await),
                Action::SleepUntil(at_ms) => {
                    Delay::from(Duration::from_millis(from_now(at_ms))).await;
                    Event::Go
                }
                Action::End(end) => return Ok(end),
            };
            if is_call {
                let waited_ms = now_ms().saturating_sub(began_at_ms);
                provider_ms.set(provider_ms.get().saturating_add(waited_ms));
            }
            action = match self.turn(&mut run, event, faults.as_ref()) {
                Ok(action) => action,
                Err(StepError::Fenced) => return Ok(self.superseded(&run)),
                Err(StepError::Bug(bug)) => self.give_up(&run, bug)?,
            };
        }
    }

    /// One transaction. Where it cannot be written, as large as it is, its first step is tried alone: what a provider has answered is kept,
    /// whatever becomes of the phase behind it.
    fn turn(
        &self,
        run: &mut Run<H::Flow>,
        event: Event<Answer<H>>,
        faults: Option<&Faults<H::Flow>>,
    ) -> Result<Action<H::Flow>, StepError> {
        let ctx = self.context();
        if faults.is_none() {
            let (before, again) = (run.clone(), event.clone());
            match self.store.transaction(&ctx, |state| run.turn(state, again, &ctx)) {
                Err(StepError::Bug(bug)) => self.turn_failed(&bug),
                done => return done,
            }
            *run = before;
        }
        self.store.transaction(&ctx, |state| {
            if let Some(faults) = faults {
                (faults.before_step)(state, &run.token, &event);
            }
            run.step(state, event, &ctx)
        })
    }

    fn turn_failed(&self, bug: &Bug) {
        self.log("warn", "turn_failed", &[("error", bug.0.as_str().into())]);
    }

    /// An error of ours: the lease goes back at once, so that a retry can go on from the last recovery point.
    fn give_up(&self, run: &Run<H::Flow>, bug: Bug) -> Result<Action<H::Flow>, Bug> {
        self.log_of(run.token.key_id, "error", "step_failed", &[("error", bug.0.as_str().into())]);
        let ctx = self.context();
        let released = self.store.transaction(&ctx, |state| run.abandon(state, "an error of ours", &ctx));
        match released {
            Ok(action) => Ok(action),
            Err(StepError::Fenced) => Ok(Action::End(self.superseded(run))),
            Err(StepError::Bug(_)) => Err(bug),
        }
    }

    /// Another run holds the lease: this one reports that the operation goes on.
    fn superseded(&self, run: &Run<H::Flow>) -> RunEnd {
        self.log_of(run.token.key_id, "warn", "fenced", &[("attempt", run.token.attempt.into())]);
        RunEnd::Pending { retry_at_ms: now_ms().saturating_add(1000), in_doubt: true }
    }
}

/// How long it is until then, in ms.
fn from_now(at_ms: u64) -> u64 {
    at_ms.saturating_sub(now_ms())
}
