//! The payments' part of the engine's object: what is configured, the way to the providers and to the queue, the rate limit.

use std::rc::Rc;
use std::time::Duration;

use futures_util::future::{join, join_all};
use serde_json::Value;
use worker::wasm_bindgen_futures::spawn_local;

use super::drive::{Drive, PaymentsHost};
use super::log::audit_after;
use super::traces::{ended, hands_on};
use crate::readmodel::home::about;
use messages::job::{Job, Message, VERSION, batches, messages};
use messages::message::Fault;
use messages::queue::Queue;
use messages::snapshot::{AUDIT_MAX, snapshot};
use once::context::{Bug, Times};
use once::id::Owner;
use once::outbox::QUEUE_TAKES_MS;
use once::record::FencingToken;
use once::run::RunEnd;
use once::trace::TraceContext;
use once_object::execute::Faults;
use once_object::object::{Host, NotTaken, Object};
use payments::engine::{
    Command, Credentials, Event, KeyRecord, Lifecycle, LookUp, ObjectState, Outcome, Payments, ProviderCall,
    Settings, StagedJob,
};
use payments::payment::operation::Operation;
use payments::payment::own_keys;
use payments::payment::provider::Provider;
use payments::payment::records::JobKind;
use payments::transitions::polling::Asker;
use runtime::log::log;
use runtime::{limiter, metrics, now_ms, places, queue, trace};
use web::trace::Span;

impl Host for PaymentsHost {
    type Flow = Payments;

    /// Providers are asked with a time limit, and so are the queue and D1.
    const ENDS_BY_ITSELF: bool = true;

    fn times(&self) -> Times {
        self.config.times
    }

    fn settings(&self) -> Settings {
        let [own_stripe, own_adyen] =
            [Provider::Stripe, Provider::Adyen].map(|provider| self.transport.own_credential(provider));
        let credentials = Credentials { own_stripe, own_adyen, ..self.config.credentials };
        Settings { limits: self.config.limits, credentials: Some(credentials) }
    }

    fn keys_max(&self) -> u32 {
        self.config.limits.keys_max
    }

    /// What is paid with an account's own keys needs them.
    async fn prepare(&self, state: Option<&ObjectState>, command: Option<&Command>) -> bool {
        let account =
            command.and_then(|command| of_operation(&command.operation)).or_else(|| state.and_then(of_state));
        match account {
            Some(account) => self.transport.prepare(&self.config, account).await,
            None => false,
        }
    }

    async fn send(&self, call: &ProviderCall) -> Outcome {
        let mut span = self.runs.call(call, call.kind.as_str());
        let outcome = metrics::sending(call, self.transport.send(call, &mut span)).await;
        ended(span, outcome.name());
        outcome
    }

    async fn look_up(&self, call: &ProviderCall) -> LookUp {
        let mut span = self.runs.call(call, "look_up");
        let found = metrics::looking_up(call, self.transport.look_up(call, &mut span)).await;
        ended(span, found.name());
        found
    }

    /// All in one message, most often.
    async fn deliver(
        &self,
        object: &Object<Self>,
        state: &ObjectState,
        jobs: Vec<StagedJob>,
    ) -> Result<Vec<NotTaken>, Bug> {
        let queue = queue::binding(&self.env, Queue::Jobs, &state.object.to_hex());
        let span = hands_on(state, &queue, &jobs);
        let trace = span.as_ref().map(|span| span.context);
        let mut texts = Vec::new();
        for job in jobs {
            let text = text(object, state, &job, trace, places::is_bound(&self.env))?;
            texts.push((job.job_id, text));
        }
        let batches = batches(messages(texts), |message| &message.text);
        let taken = join_all(batches.iter().map(|batch| self.enqueue(&queue, batch))).await;
        self.handed_on(span, taken.iter().all(Result::is_ok));
        let not_taken = batches.into_iter().zip(taken).filter_map(|(batch, taken)| {
            let reason = taken.err()?.0;
            let jobs = batch.into_iter().flat_map(|message| message.jobs);
            Some(jobs.map(move |job_id| NotTaken { job_id, reason: reason.clone() }))
        });
        Ok(not_taken.flatten().collect())
    }

    async fn forget_over(
        &self,
        object: &Object<Self>,
        state: &ObjectState,
        jobs: &[StagedJob],
    ) -> Result<(), Bug> {
        self.forget_what_is_over(object, state, jobs).await
    }

    async fn may_start(&self, owner: &Owner) -> bool {
        self.is_within_rate(owner.to_text()).await
    }

    fn run_began(&self, key: &KeyRecord, run: &FencingToken) {
        self.runs.began(key, run);
    }

    fn run_ended(&self, run: &FencingToken, end: &Result<RunEnd, Bug>) {
        self.runs.ended(run, end);
        self.send_spans();
    }

    async fn woken(&self, object: &Rc<Object<Self>>) {
        let drive = Drive::of(Rc::clone(object));
        join(drive.check(Asker::Background), drive.purge_again()).await;
    }

    fn log(&self, level: &str, fields: &[(&str, Value)]) {
        log(level, fields);
    }
}

impl PaymentsHost {
    /// Whether an account may make a link to one more order: as many in a minute as it may begin operations, counted apart.
    pub(super) async fn may_make_link(&self, owner: &Owner) -> bool {
        self.is_within_rate(format!("links {}", owner.to_text())).await
    }

    async fn is_within_rate(&self, bucket: String) -> bool {
        limiter::has_room(&self.env, "RATE_LIMITER", bucket).await
    }

    /// The queue has taken what was handed on, or not.
    fn handed_on(&self, mut span: Option<Span>, is_taken: bool) {
        if let (Some(span), false) = (&mut span, is_taken) {
            span.fail("not_taken");
        }
        trace::end(span);
        self.send_spans();
    }

    /// What has ended here is sent, without anybody waiting for it.
    fn send_spans(&self) {
        if let Some(flush) = trace::flush(&self.env) {
            spawn_local(flush);
        }
    }

    async fn enqueue(&self, queue: &str, batch: &[Message<String>]) -> Result<(), Bug> {
        let failed = |error: worker::Error| Bug(format!("the queue: {error}"));
        let texts = batch.iter().map(|message| (message.text.as_str(), 0));
        let takes = Duration::from_millis(QUEUE_TAKES_MS);
        queue::send(&self.env, queue, texts, takes).await.map_err(failed)?;
        metrics::queued(batch.len());
        Ok(())
    }
}

/// The account whose own keys an operation wants.
fn of_operation(operation: &Operation) -> Option<&str> {
    match operation {
        Operation::Payment(request) => {
            let routes = [Some(&request.route), request.fallback.as_ref()].into_iter().flatten();
            routes.filter_map(|route| route.merchant_account.as_deref()).find_map(own_keys::account_of)
        }
        Operation::Customer(request) => request.merchant_account.as_deref().and_then(own_keys::account_of),
        _ => None,
    }
}

/// The account whose own keys were used in an object, or would be. An object has one owner, so it is one account.
pub(super) fn of_state(state: &ObjectState) -> Option<&str> {
    let payment = state.resource.payment.as_ref().and_then(|payment| payment.merchant_account.as_deref());
    let calls = state.calls.iter().filter_map(|call| call.request.account.as_deref());
    let open = state.keys.iter().filter_map(|key| match &key.lifecycle {
        Lifecycle::Open(open) => of_operation(&open.operation),
        _ => None,
    });
    payment.into_iter().chain(calls).filter_map(own_keys::account_of).chain(open).next()
}

fn text(
    object: &Object<PaymentsHost>,
    state: &ObjectState,
    job: &StagedJob,
    trace: Option<TraceContext>,
    has_shards: bool,
) -> Result<String, Bug> {
    let message = Job {
        version: VERSION,
        job_id: job.job_id.clone(),
        kind: job.kind,
        object: state.object.to_hex(),
        payload: job.payload.clone(),
        staged_at_ms: job.staged_at_ms,
        trace,
        apart: None,
        // A projection says it itself.
        payment: if has_shards && job.kind != JobKind::Project { about(state) } else { None },
    };
    match job.kind {
        JobKind::Project => {
            let audit = audit_after(object.store(), state.resource.audit_through, AUDIT_MAX)?;
            message.projecting(snapshot(state, audit, now_ms()))
        }
        JobKind::SendReceipt | JobKind::DeliverWebhook | JobKind::Retired => serde_json::to_string(&message),
    }
    .map_err(|error| Bug(error.to_string()))
}

/// A failure that was asked for, as what the engine does at each step.
pub(super) const fn faults(fault: Fault) -> Faults<Payments> {
    match fault {
        Fault::Error => Faults { fail_at: &Fault::AT, before_step: |_, _, _| {} },
        Fault::Crash => Faults { fail_at: &[], before_step: crash_when_reserved },
        Fault::CrashAfterCall => Faults { fail_at: &[], before_step: crash_after_call },
    }
}

fn crash_when_reserved(state: &ObjectState, token: &FencingToken, _: &Event) {
    let at = state.key(token.key_id).map(KeyRecord::recovery_point);
    if at.is_some_and(|at| Fault::AT.contains(&at)) {
        trap();
    }
}

fn crash_after_call(_: &ObjectState, _: &FencingToken, event: &Event) {
    if matches!(event, Event::Outcome(..)) {
        trap();
    }
}

/// Takes down every request of this WebAssembly instance, as any panic would.
fn trap() -> ! {
    std::process::abort()
}
