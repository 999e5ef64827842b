//! An object of the engine, and what it needs of the Worker in which it runs.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use futures_util::future::{LocalBoxFuture, Shared};
use futures_util::lock::Mutex;
use once::begin::Command;
use once::call::{LookUp, Outcome, ProviderCall};
use once::context::{Bug, Context};
use once::domain::Domain;
use once::flow::Flow;
use once::id::{InstanceId, Owner, RequestId};
use once::object_state::{ObjectState, StagedJob};
use once::outbox::Handed;
use once::record::{FencingToken, KeyRecord};
use once::run::RunEnd;
use once::times::Times;
use serde_json::{Map, Value};
use worker::State;

use super::runtime::{Runtime, jitter_permille, now_ms, object_id, random_uuid};
use super::store::{Hooks, Store};

/// How many keys an object takes, unless its host says otherwise.
const KEYS_MAX: u32 = 200;

/// The operations of a host's flow, as the engine names their parts.
pub type Call<H> = ProviderCall<<H as Host>::Flow>;
/// What a definitive answer means.
pub type Answer<H> = <<H as Host>::Flow as Domain>::Answer;
/// Why the state of things does not admit an operation.
pub type Refusal<H> = <<H as Host>::Flow as Domain>::Refusal;
/// A job that leaves after the commit.
pub type Job<H> = StagedJob<<<H as Host>::Flow as Domain>::JobKind>;
/// What is configured for the flow.
pub type Settings<H> = <<H as Host>::Flow as Domain>::Settings;

/// The Worker's part: it sends, asks and delivers, and says what is configured.
///
/// Nothing here decides whether something is done again: that is the engine's.
#[allow(async_fn_in_trait, reason = "an isolate has one thread: nothing has to be Send")]
pub trait Host: Sized + 'static {
    /// What the operations do.
    type Flow: Flow;

    /// Whether all that this host waits for is bounded by itself, whatever hangs: then nothing here is given up by the object, which saves a timer for each.
    const ENDS_BY_ITSELF: bool = false;

    /// The configured times. They must [fit together](Times::validate): with a window that is too long a key is executed again.
    fn times(&self) -> Times;

    /// What is configured for the flow.
    fn settings(&self) -> Settings<Self>;

    /// How many keys an object holds: it begins no other operation until some are [forgotten](Flow::forgets_after_ms).
    fn keys_max(&self) -> u32 {
        KEYS_MAX
    }

    /// The state of the object was read, and a command has come or something is due: what has to be found out before anything is sent, such as a key.
    /// [`settings`](Self::settings) are asked after it. `true` if it has waited for something: then the state is read again.
    async fn prepare(
        &self,
        _state: Option<&ObjectState<Self::Flow>>,
        _command: Option<&Command<Self::Flow>>,
    ) -> bool {
        false
    }

    /// Sends a call once, with the bytes and under the key that stand in it. Whatever is not certain is
    /// [`Outcome::Unknown`]: also that no answer came in `provider_timeout_ms`. It must come to an end by then, with its body, as must all that waits
    /// for somebody else here ([`within`](crate::within)): while an alarm waits no other one rings. What is given up is to be aborted, or it stays open
    /// beside the next send; and a body is to be [bounded](crate::text_at_most).
    ///
    /// What does not come to an end is given up: a send half-way between that time and the lease, all else here when the lease has run out. It is not known
    /// then what came of it (`host_hangs` in the log).
    async fn send(&self, call: &Call<Self>) -> Outcome<Answer<Self>>;

    /// Asks the provider for one page of what became of a call. By default it is not asked, as one that [cannot be](once::domain::Provider::answers_questions):
    /// then what it tells by itself ends a call, or a person.
    async fn look_up(&self, _call: &Call<Self>) -> LookUp<Answer<Self>> {
        LookUp::Inconclusive { from_the_start: false, reason: "nothing is asked".to_owned() }
    }

    /// Hands jobs on, each by its id. Gives those that were not taken: they leave again later. One that is taken is handed on again, too,
    /// unless it is [forgotten](Object::confirm) before, or [found](Host::forget_over) to be over.
    async fn deliver(
        &self,
        object: &Object<Self>,
        object_state: &ObjectState<Self::Flow>,
        jobs: Vec<Job<Self>>,
    ) -> Result<Vec<NotTaken>, Bug>;

    /// Looks which of these jobs are over, done or in the dead letters, and [forgets](Object::confirm) them. They were staged a while ago.
    ///
    /// # Errors
    /// Where that cannot be found out now: it is looked again later.
    async fn forget_over(
        &self,
        _object: &Object<Self>,
        _rows: &ObjectState<Self::Flow>,
        _jobs: &[Job<Self>],
    ) -> Result<(), Bug> {
        Ok(())
    }

    /// Whether an account may begin one more new operation now: a rate limit. Replays, retries and what is refused anyway do not come here.
    async fn may_start(&self, _owner: &Owner) -> bool {
        true
    }

    /// A run of a key begins.
    fn run_began(&self, _key: &KeyRecord<Self::Flow>, _run: &FencingToken) {}

    /// A run has ended, or broken off.
    fn run_ended(&self, _run: &FencingToken, _end: &Result<RunEnd, Bug>) {}

    /// The object wakes: what the flow itself has to ask or to do. It is called beside the runs that go on.
    async fn woken(&self, _object: &Rc<Object<Self>>) {}

    /// A line for the log. `level` is `info`, `warn` or `error`.
    fn log(&self, level: &str, fields: &[(&str, Value)]) {
        let mut line = Map::new();
        line.insert("level".to_owned(), level.into());
        line.extend(fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        let line = Value::Object(line);
        match level {
            "error" => worker::console_error!("{line}"),
            _ => worker::console_log!("{line}"),
        }
    }
}

/// A job that was not taken.
#[derive(Clone, Debug)]
pub struct NotTaken {
    /// Which one.
    pub job_id: String,
    /// Why not.
    pub reason: String,
}

/// A run that several callers wait for.
pub(super) type Running = Shared<LocalBoxFuture<'static, Result<Ended, Bug>>>;

/// A run that goes on in this incarnation.
#[derive(Clone)]
pub(super) struct Live {
    pub(super) attempt: u32,
    pub(super) running: Running,
    /// The requests that have joined it and wait for its end.
    pub(super) joined: Rc<RefCell<Vec<RequestId>>>,
}

/// How a run ended, and how long it waited for the provider, in ms.
#[derive(Clone)]
pub(super) struct Ended {
    pub(super) end: RunEnd,
    pub(super) provider_ms: u64,
}

/// An object's working parts. The truth is in the store; what is here may vanish at any time.
pub struct Object<H: Host> {
    pub(super) me: InstanceId,
    pub(super) store: Store<H::Flow, Runtime>,
    pub(super) host: H,
    /// Something is sending what is staged.
    pub(super) draining: Cell<bool>,
    /// What was sent, and is not written down.
    pub(super) handed: RefCell<Handed>,
    /// The newest run of each key in this incarnation.
    pub(super) running: RefCell<HashMap<u32, Live>>,
    /// Whoever holds it asks whether the account's rate allows a new operation.
    pub(super) admission: Mutex<()>,
}

impl<H: Host> Object<H> {
    /// The object that runs here. Nothing is read or written yet.
    ///
    /// # Errors
    /// Where the runtime gives it no id, or no randomness, or the host's times do not fit together.
    pub fn open(state: &State, host: H) -> Result<Rc<Self>, Bug> {
        let runtime = Runtime::open(state, |_| {});
        Self::new(Store::new(object_id(state)?, runtime, Hooks::default()), host)
    }

    /// The same with a store of the caller's making: one with [`Hooks`].
    ///
    /// # Errors
    /// Where there is no randomness, or the host's times do not fit together.
    pub fn new(store: Store<H::Flow, Runtime>, host: H) -> Result<Rc<Self>, Bug> {
        host.times().validate().map_err(|error| Bug(format!("the times do not fit together: {error}")))?;
        let me = InstanceId(random_uuid()?);
        let object = Rc::new(Self {
            me,
            store,
            host,
            draining: Cell::new(false),
            handed: RefCell::default(),
            running: RefCell::default(),
            admission: Mutex::default(),
        });
        let weak = Rc::downgrade(&object);
        object.store.storage().on_alarm_failed(move |error| {
            if let Some(object) = weak.upgrade() {
                object.alarm_failed(error);
            }
        });
        let weak = Rc::downgrade(&object);
        object.store.on_committed(move |before, after| {
            if let Some(object) = weak.upgrade() {
                object.tell_flagged(before, after);
            }
        });
        Ok(object)
    }

    /// Tells of what a person must look at since this commit, once: operations that fail again and again, and calls of which somebody must find out how
    /// they ended.
    fn tell_flagged(&self, before: &ObjectState<H::Flow>, after: &ObjectState<H::Flow>) {
        for (key_id, call, reason) in once::by_hand::newly_flagged(before, after) {
            let call = call.map(|name| ("call", name.into()));
            let fields = [("key_id", key_id.into()), ("reason", reason.into())];
            self.log_of(key_id, "error", "operation_flagged", &[&fields[..], call.as_slice()].concat());
        }
    }

    /// The commit stands without the alarm that went with it: until the next one sets it nobody completes what is abandoned.
    fn alarm_failed(&self, error: String) {
        self.store.alarm_gone();
        self.log("error", "alarm_not_set", &[("error", error.into())]);
    }

    /// The incarnation.
    pub const fn me(&self) -> &InstanceId {
        &self.me
    }

    /// Where its rows are kept.
    pub const fn store(&self) -> &Store<H::Flow, Runtime> {
        &self.store
    }

    /// The Worker's part.
    pub const fn host(&self) -> &H {
        &self.host
    }

    /// A line of the log that names this object.
    pub fn log(&self, level: &str, event: &str, fields: &[(&str, Value)]) {
        let named = [("event", event.into()), ("object", self.store.object().to_hex().into())];
        self.host.log(level, &[&named[..], fields].concat());
    }

    /// The same, of the work on a key: it also names the trace that this is part of.
    pub(super) fn log_of(&self, key_id: u32, level: &str, event: &str, fields: &[(&str, Value)]) {
        let trace = self.store.remembered().and_then(|object_state| object_state.key(key_id)?.trace);
        let trace = trace.map(|trace| ("trace_id", trace.trace_id_hex().into()));
        self.log(level, event, &[fields, trace.as_slice()].concat());
    }

    /// What a step is given now.
    pub fn context(&self) -> Context<Settings<H>> {
        Context {
            now_ms: now_ms(),
            jitter_permille: jitter_permille(),
            times: self.host.times(),
            keys_max: self.host.keys_max(),
            settings: self.host.settings(),
        }
    }
}
