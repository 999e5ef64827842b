//! The one loop that brings an operation to its end, whoever asks: a request, a duplicate, the alarm.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{Either, LocalBoxFuture, Shared, select};
use futures_util::lock::Mutex;
use serde_json::Value;
use worker::{Date, Delay, Env};

use crate::config::Config;
use crate::transport::Transport;
use messages::message::{
    BindVerdict, Execute, ExecuteResult, Fault, KeyView, Located, OrderView, Returned, Shown, View, WayOn,
};
use once::alarm::{Forgotten, forget};
use once::begin::{Bound, begin, bind, replayed};
use once::context::Bug;
use once::id::{InstanceId, ObjectId, Owner, RequestId};
use once::key::KeyHash;
use once::record::FencingToken;
use once::run::RunEnd;
use once::step::StepError;
use once_object::runtime::Runtime;
use once_object::store::Store;
use payments::flows::engine::{
    Action, Begin, Command, Context, Event, KeyRecord, Payments, RecoveryPoint, Rows, Run, context,
    with_credentials,
};
use payments::flows::order_link::{self, EndedLinks, MadeLink};
use payments::flows::tries::next_try;
use payments::payment::{Payment, check};
use runtime::http_client::within;
use runtime::log::log;
use runtime::metrics;
use runtime::random;

/// How long the rate limiter may take: without its answer an operation runs.
const LIMITER_WITHIN: Duration = Duration::from_secs(2);

/// A run that several callers wait for.
type Running = Shared<LocalBoxFuture<'static, Result<Ended, Bug>>>;

/// A run that goes on in this incarnation.
#[derive(Clone)]
struct Live {
    attempt: u32,
    running: Running,
    /// The requests that have joined it and wait for its end.
    joined: Rc<RefCell<Vec<RequestId>>>,
}

/// How a run ended, and how long it waited for the provider, in ms.
#[derive(Clone)]
pub(super) struct Ended {
    end: RunEnd,
    provider_ms: u64,
}

/// An object's working parts. The truth is in the store; what is here may vanish at any time.
pub(super) struct Drive {
    pub(super) me: InstanceId,
    pub(super) store: Store<Payments, Runtime>,
    pub(super) config: Config,
    pub(super) transport: Transport,
    pub(super) env: Env,
    /// Something is sending what is staged.
    pub(super) draining: Cell<bool>,
    /// The newest run of each key in this incarnation.
    running: RefCell<HashMap<u32, Live>>,
    /// Whoever holds it asks whether the account's rate allows a new operation.
    admission: Mutex<()>,
}

impl Drive {
    pub(super) fn new(env: &Env, store: Store<Payments, Runtime>, config: Config) -> Result<Self, Bug> {
        let id = random::uuid().map_err(|error| Bug(format!("no randomness: {error}")))?;
        let me = InstanceId(id.to_string());
        let transport = Transport::new(env, &config);
        Ok(Self {
            me,
            store,
            config,
            transport,
            env: env.clone(),
            draining: Cell::new(false),
            running: RefCell::default(),
            admission: Mutex::default(),
        })
    }

    /// A line of the log that names this object.
    pub(super) fn log(&self, level: &str, event: &str, fields: &[(&str, Value)]) {
        let named = [("event", event.into()), ("object", self.store.object().to_hex().into())];
        log(level, &[&named[..], fields].concat());
    }

    pub(super) fn context(&self) -> Context {
        let now_ms = Date::now().as_millis();
        let ctx = context(now_ms, random::permille(), self.config.times, self.config.limits);
        with_credentials(ctx, self.config.credentials)
    }

    /// Runs an operation under its key, joins the run that is under way, or answers from what was done. Also gives how
    /// long that waited for the provider, in ms.
    pub(super) async fn run(self: &Rc<Self>, ask: Execute) -> Result<(ExecuteResult, u64), Bug> {
        let Some(begun) = self.begin(&ask).await? else {
            return Ok((ExecuteResult::RateLimited, 0));
        };
        let verdict = match begun {
            Begin::Run(ticket) => {
                let key_id = ticket.key_id;
                let ended = self.start(ticket, Some(ask.wait_ms), ask.fault).await?;
                return Ok((self.verdict(ended.end, key_id, false)?, ended.provider_ms));
            }
            Begin::InProgress { key_id, lease_left_ms } => {
                return self.join(key_id, lease_left_ms, &ask).await;
            }
            Begin::Replay { response, original_request } => {
                metrics::replayed(self.took_money(&ask.command.key_hash));
                ExecuteResult::Finished { response, original_request, replayed: true }
            }
            Begin::Pending { retry_at_ms, in_doubt } => {
                ExecuteResult::Pending { retry_after_ms: from_now(retry_at_ms), in_doubt }
            }
            Begin::Mismatch { fields } => {
                metrics::mismatch();
                ExecuteResult::Mismatch { fields }
            }
            Begin::Expired => ExecuteResult::Expired,
            Begin::NotStarted => ExecuteResult::NotStarted,
            Begin::NotOwner => ExecuteResult::NotOwner,
            Begin::Refused(refusal) => ExecuteResult::Refused(refusal),
        };
        Ok((verdict, 0))
    }

    /// The decision, once the account's rate allows it; `None` if that does not. Only what is admitted is counted: one at a
    /// time, or many at once would all be counted for the one of them that is.
    async fn begin(&self, ask: &Execute) -> Result<Option<Begin>, Bug> {
        let _turn = match ask.is_counted || self.is_known(&ask.command.key_hash)? {
            true => None,
            false => {
                let turn = self.admission.lock().await;
                if self.would_start(&ask.command)? && !self.may_start(&ask.command.owner).await {
                    return Ok(None);
                }
                Some(turn)
            }
        };
        let ctx = self.context();
        self.store.transaction(&ctx, |rows| begin(rows, &ask.command, &self.me, &ctx)).map(Some)
    }

    /// Whether a key was seen in this object.
    fn is_known(&self, key_hash: &KeyHash) -> Result<bool, Bug> {
        Ok(self.store.read()?.is_some_and(|rows| rows.keys.iter().any(|key| key.key_hash == *key_hash)))
    }

    /// Whether a request would begin something new, as the rows are now. Nothing is written.
    fn would_start(&self, command: &Command) -> Result<bool, Bug> {
        let mut rows =
            self.store.read()?.map_or_else(|| Rows::empty(self.store.object()), |rows| Rows::clone(&rows));
        let is_known = rows.keys.iter().any(|key| key.key_hash == command.key_hash);
        Ok(!is_known && matches!(begin(&mut rows, command, &self.me, &self.context())?, Begin::Run(_)))
    }

    /// Counts a new operation of an account against its rate. Replays, retries and what is refused do not come here. Without the binding
    /// there is no limit; if it fails, the operation runs.
    async fn may_start(&self, owner: &Owner) -> bool {
        let Ok(limiter) = self.env.rate_limiter("RATE_LIMITER") else {
            return true;
        };
        match within(LIMITER_WITHIN, "the rate limiter", limiter.limit(owner.to_text())).await {
            Ok(outcome) => outcome.success,
            Err(error) => {
                self.log("warn", "rate_limiter_failed", &[("error", error.to_string().into())]);
                true
            }
        }
    }

    /// Binds a key to the object in which its operation runs.
    pub(super) fn bind(&self, command: &Command, object: &str) -> Result<BindVerdict, Bug> {
        let object = ObjectId::from_hex(object).ok_or_else(|| Bug("not an object's id".into()))?;
        let ctx = self.context();
        let bound = self.store.transaction(&ctx, |rows| Ok::<_, Bug>(bind(rows, command, object, &ctx)))?;
        Ok(match bound {
            Bound::To(object) => BindVerdict::To(object.to_hex()),
            Bound::Mismatch { fields } => {
                metrics::mismatch();
                BindVerdict::Mismatch { fields }
            }
        })
    }

    /// Asks the provider about what is open there. `looking` is somebody who waits. Nothing comes of a failure but that it
    /// is asked again later.
    pub(super) async fn check(&self, looking: bool) {
        if let Err(bug) = self.ask_provider(looking).await {
            self.log("error", "check_failed", &[("error", bug.0.as_str().into())]);
        }
    }

    /// Somebody has come back from the bank's page. What was heard of the payment before that is old, so this waits until it
    /// may be asked again.
    pub(super) async fn check_after_return(&self) -> Result<(), Bug> {
        let ctx = self.context();
        let check = self.store.read()?.and_then(|rows| rows.resource.payment.as_ref()?.check);
        match check.map(|check| check::look_wait_ms(&check, &ctx)) {
            Some(0) | None => {}
            Some(wait_ms) => Delay::from(Duration::from_millis(wait_ms)).await,
        }
        self.check(true).await;
        Ok(())
    }

    async fn ask_provider(&self, looking: bool) -> Result<(), Bug> {
        let ctx = self.context();
        let is_due = |payment: &Payment| {
            payment.check.is_some() || check::due_at_ms(payment).is_some_and(|at_ms| at_ms <= ctx.now_ms)
        };
        if !self.store.read()?.is_some_and(|rows| rows.resource.payment.as_ref().is_some_and(is_due)) {
            return Ok(());
        }
        let questions =
            self.store.transaction(&ctx, |rows| Ok::<_, Bug>(check::begin(rows, looking, &ctx)))?;
        for question in questions {
            let mut next = Some(question);
            while let Some(question) = next {
                let truth = self.transport.ask(&question).await;
                let ctx = self.context();
                next = self.store.transaction(&ctx, |rows| check::take(rows, &question, truth, &ctx))?;
            }
        }
        self.drain().await;
        Ok(())
    }

    /// Waits, for a bounded time, for the run that another request has begun.
    async fn join(
        &self,
        key_id: u32,
        lease_left_ms: u64,
        ask: &Execute,
    ) -> Result<(ExecuteResult, u64), Bug> {
        let in_progress = ExecuteResult::InProgress { retry_after_ms: lease_left_ms.min(1000) };
        let live = self.running.borrow().get(&key_id).cloned();
        let Some(Live { running, joined, .. }) = live.filter(|_| ask.wait_ms > 0) else {
            metrics::in_progress();
            return Ok((in_progress, 0));
        };
        joined.borrow_mut().push(ask.command.request_id.clone());
        match select(running, Delay::from(Duration::from_millis(ask.wait_ms))).await {
            Either::Left((ended, _)) => {
                let ended = ended?;
                metrics::waited(self.took_money(&ask.command.key_hash));
                Ok((self.verdict(ended.end, key_id, true)?, ended.provider_ms))
            }
            Either::Right(_) => {
                joined.borrow_mut().retain(|request| *request != ask.command.request_id);
                metrics::waited(false);
                metrics::in_progress();
                Ok((in_progress, 0))
            }
        }
    }

    /// Those who have waited for a run get its response: they are replays too. This follows the run's last transaction
    /// without anything awaited in between, so the answers are held back by one write of the storage, not by two.
    fn count_joined(&self, key_id: u32, joined: &[RequestId]) {
        if joined.is_empty() {
            return;
        }
        let ctx = self.context();
        let counted = self.store.transaction(&ctx, |rows| {
            joined.iter().for_each(|request| replayed(rows, key_id, request, &ctx));
            Ok::<_, Bug>(())
        });
        if let Err(bug) = counted {
            self.log("error", "replays_not_counted", &[("error", bug.0.as_str().into())]);
        }
    }

    /// For the counts only: nothing depends on it.
    fn took_money(&self, key_hash: &KeyHash) -> bool {
        self.store
            .read()
            .is_ok_and(|rows| rows.is_some_and(|rows| payments::flows::took_money(&rows, key_hash)))
    }

    fn verdict(&self, end: RunEnd, key_id: u32, replayed: bool) -> Result<ExecuteResult, Bug> {
        Ok(match end {
            RunEnd::Finished(response) => {
                let first = self
                    .store
                    .read()?
                    .and_then(|rows| rows.key(key_id).map(|key| key.original_request.clone()));
                let original_request = first.ok_or_else(|| Bug(format!("no key {key_id}")))?;
                ExecuteResult::Finished { response, original_request, replayed }
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
        ticket: FencingToken,
        patience_ms: Option<u64>,
        fault: Option<Fault>,
    ) -> Running {
        let key_id = ticket.key_id;
        let attempt = ticket.attempt;
        let drive = Rc::clone(self);
        let joined = Rc::new(RefCell::new(Vec::new()));
        let waiting = Rc::clone(&joined);
        let running = async move {
            let patience_until_ms = patience_ms.map_or(0, |ms| Date::now().as_millis().saturating_add(ms));
            let fail_at: &[RecoveryPoint] = if fault == Some(Fault::Error) { &Fault::AT } else { &[] };
            let provider_ms = Cell::new(0);
            let run = Run::new(ticket, patience_until_ms, fail_at);
            let end = drive.watch(drive.to_the_end(run, fault, &provider_ms)).await;
            let mut runs = drive.running.borrow_mut();
            if runs.get(&key_id).is_some_and(|newest| newest.attempt == attempt) {
                runs.remove(&key_id);
            }
            drop(runs);
            if matches!(end, Ok(RunEnd::Finished(_))) {
                drive.count_joined(key_id, &waiting.borrow());
            }
            if let Err(bug) = &end {
                drive.log(
                    "error",
                    "run_failed",
                    &[("attempt", attempt.into()), ("error", bug.0.as_str().into())],
                );
            }
            drive.drain_aside();
            end.map(|end| Ended { end, provider_ms: provider_ms.get() })
        }
        .boxed_local()
        .shared();
        self.running.borrow_mut().insert(key_id, Live { attempt, running: running.clone(), joined });
        worker::wasm_bindgen_futures::spawn_local(running.clone().map(|_| ()));
        running
    }

    async fn to_the_end(
        &self,
        mut run: Run,
        fault: Option<Fault>,
        provider_ms: &Cell<u64>,
    ) -> Result<RunEnd, Bug> {
        let mut event = Event::Go;
        loop {
            let action = match self.step(&mut run, event, fault) {
                Ok(action) => action,
                Err(StepError::Fenced) => return self.superseded(&run),
                Err(StepError::Bug(bug)) => self.give_up(&run, bug)?,
            };
            let began_at_ms = Date::now().as_millis();
            let is_call = matches!(action, Action::Send(_) | Action::LookUp(_));
            event = match action {
                Action::Again => Event::Go,
                Action::Send(call) => {
                    let send = self.transport.send(&call);
                    Event::Outcome(call.call_id, metrics::sending(&call, send).await)
                }
                Action::LookUp(call) => {
                    let look_up = self.transport.look_up(&call);
                    Event::LookedUp(call.call_id, metrics::looking_up(&call, look_up).await)
                }
                Action::SleepUntil(at_ms) => {
                    let pause_ms = at_ms.saturating_sub(Date::now().as_millis());
                    Delay::from(Duration::from_millis(pause_ms)).await;
                    Event::Go
                }
                Action::End(end) => return Ok(end),
            };
            if is_call {
                let waited_ms = Date::now().as_millis().saturating_sub(began_at_ms);
                provider_ms.set(provider_ms.get().saturating_add(waited_ms));
            }
        }
    }

    fn step(&self, run: &mut Run, event: Event, fault: Option<Fault>) -> Result<Action, StepError> {
        let ctx = self.context();
        self.store.transaction(&ctx, |rows| {
            let at = rows.key(run.ticket.key_id).map(KeyRecord::recovery_point);
            let crashes = match fault {
                Some(Fault::Crash) => at.is_some_and(|at| Fault::AT.contains(&at)),
                Some(Fault::CrashAfterCall) => matches!(event, Event::Outcome(..)),
                Some(Fault::Error) | None => false,
            };
            if crashes {
                // A trap takes down every request of this WebAssembly instance, as any panic would.
                core::arch::wasm32::unreachable();
            }
            run.step(rows, event, &ctx)
        })
    }

    /// An error of ours: the lease goes back at once, so that a retry can go on from the last recovery point.
    fn give_up(&self, run: &Run, bug: Bug) -> Result<Action, Bug> {
        self.log("error", "step_failed", &[("error", bug.0.as_str().into())]);
        let ctx = self.context();
        let released = self.store.transaction(&ctx, |rows| run.abandon(rows, "an error of ours", &ctx));
        match released {
            Ok(action) => Ok(action),
            Err(StepError::Fenced) => self.superseded(run).map(Action::End),
            Err(StepError::Bug(_)) => Err(bug),
        }
    }

    /// Another run took over: this one knows nothing better than that it goes on.
    fn superseded(&self, run: &Run) -> Result<RunEnd, Bug> {
        self.log("warn", "fenced", &[("attempt", run.ticket.attempt.into())]);
        Ok(RunEnd::Pending { retry_at_ms: Date::now().as_millis().saturating_add(1000), in_doubt: true })
    }

    /// The resource and its key, for their owner.
    pub(super) fn show(&self, owner: &Owner, key_hash: Option<&KeyHash>) -> Result<Shown, Bug> {
        let Some(rows) = self.store.read()? else {
            return Ok(None);
        };
        let wanted = |key: &&KeyRecord| key_hash.is_none_or(|hash| key.key_hash == *hash);
        let Some(key) = rows.keys.iter().rfind(wanted).filter(|key| key.owner == *owner) else {
            return Ok(None);
        };
        Ok(Some(View {
            ride: rows.resource.ride.clone(),
            payment: rows.resource.payment.clone(),
            refunds: rows.resource.refunds.clone(),
            tries: rows.resource.tries.clone(),
            parameters: key.parameters.clone(),
            next_try: next_try(&rows, &self.context()),
            key: KeyView::of(&rows, key, self.store.timeline()?, self.context().now_ms),
        }))
    }

    /// Where the operation of a key runs that was bound here.
    pub(super) fn locate(&self, owner: &Owner, key_hash: &KeyHash) -> Result<Located, Bug> {
        let Some(rows) = self.store.read()? else { return Ok(None) };
        let mine = rows.bindings.iter().find(|bound| bound.key_hash == *key_hash && bound.owner == *owner);
        Ok(mine.map(|bound| bound.object.to_hex()))
    }

    /// Drops a finished key's response before its time.
    pub(super) fn forget(&self, owner: &Owner, key_hash: &KeyHash) -> Result<Forgotten, Bug> {
        if self.store.read()?.is_none() {
            return Ok(Forgotten::Unknown);
        }
        let ctx = self.context();
        self.store.transaction(&ctx, |rows| Ok(forget(rows, owner, key_hash, &ctx)))
    }

    /// Where the person goes who has come back from the bank's page.
    pub(super) fn return_address(&self) -> Result<Returned, Bug> {
        let Some(payment) = self.store.read()?.and_then(|rows| rows.resource.payment.clone()) else {
            return Ok(None);
        };
        let (amount_minor, currency) = (payment.amount.get(), payment.currency);
        Ok(payment.return_url.map(|return_url| WayOn { return_url, amount_minor, currency }))
    }

    /// An order and its links, for its owner.
    pub(super) fn order(&self, owner: &Owner) -> Result<OrderView, Bug> {
        let links = self.store.read()?.and_then(|rows| rows.resource.links.clone());
        Ok(OrderView { view: self.show(owner, None)?, links })
    }

    /// A link to the order is made.
    pub(super) fn make_link(&self, revision: Option<u32>, content: &str) -> Result<MadeLink, Bug> {
        let ctx = self.context();
        self.store.transaction(&ctx, |rows| Ok(order_link::make(rows, revision, content)))
    }

    /// All links to the order are ended.
    pub(super) fn end_links(&self) -> Result<EndedLinks, Bug> {
        let ctx = self.context();
        self.store.transaction(&ctx, |rows| Ok(order_link::end(rows)))
    }
}

/// How long it is until then, in ms.
fn from_now(at_ms: u64) -> u64 {
    at_ms.saturating_sub(Date::now().as_millis())
}
