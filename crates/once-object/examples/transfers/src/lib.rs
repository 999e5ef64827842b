//! A Worker that makes bank transfers once. An account is an object; `POST /accounts/NAME` with `Idempotency-Key` and `{to, cents}` sends
//! money from it, `GET /accounts/NAME` shows it. The bank is another server (`BANK`), which executes each key once.
//!
//! Who asks is known by their token (`TOKENS`), and an account is theirs who first sends money from it. It is not known by the account's name: anybody
//! may say that.
//!
//! An account holds 200 transfers ([`Host::keys_max`]), and refuses what comes then. It forgets those of which no client can send the key any more
//! ([`Flow::forgets_after_ms`](once::flow::Flow::forgets_after_ms)): 200 in a month. One that is to make more has an object for each transfer, and its
//! balance in one place that all of them call.
#![allow(missing_docs, reason = "what durable_object makes has none")]

use std::rc::Rc;

use once::begin::Command;
use once::call::{FrozenRequest, LookUp, Outcome, ProviderCall, ProviderReply, RefusalScope};
use once::context::Bug;
use once::fingerprint::Fingerprint;
use once::id::{Owner, RequestId};
use once::key::IdempotencyKey;
use once::object_state::{ObjectState, StagedJob};
use once::record::Channel;
use once::times::Times;
use once_object::execute::{Execute, ExecuteResult};
use once_object::object::{Host, NotTaken, Object};
use once_object::runtime::random_uuid;
use once_object::{text_at_most, within};
use serde::Deserialize;
use serde_json::json;
use worker::{
    AbortController, Context, DurableObject, Env, Fetch, Headers, Method, RequestInit, State, durable_object,
    event,
};
use worker::{Request, Response, Result};

use flow::{Receipt, Transfers};

#[allow(dead_code, reason = "the engine's own example uses more of it")]
#[path = "../../../../once/examples/transfer/flow.rs"]
mod flow;

/// The longest answer of the bank's that is read, in bytes: what is kept of it stands in the state, and its reason in the response.
const ANSWER_MAX_BYTES: usize = 4 << 10;

/// What the bank says, as far as it is understood here: it may say more one day. What is kept of it is [`Receipt`], which refuses what it does not know.
#[derive(Deserialize)]
#[serde(tag = "status", rename_all = "snake_case")]
enum Answer {
    Booked { reference: String },
    Rejected { reason: String },
}

fn reply(status: u16, answer: Answer) -> ProviderReply<Receipt> {
    let result = match answer {
        Answer::Booked { reference } => Receipt::Booked { reference },
        Answer::Rejected { reason } => Receipt::Rejected { reason },
    };
    ProviderReply { status, result, request_id: None }
}

/// Asks the bank: its address, how long a run may take, and who may ask here.
struct BankHost {
    bank: String,
    lease_ms: u64,
    tokens: String,
}

impl BankHost {
    /// Who asks: `TOKENS` is `NAME:TOKEN NAME:TOKEN`. A Worker with more users keeps their tokens in a database, hashed.
    fn caller(&self, request: &Request) -> Result<Option<Owner>> {
        let header = request.headers().get("authorization")?.unwrap_or_default();
        let mut users = self.tokens.split(' ').filter_map(|user| user.split_once(':'));
        let user = users.find(|(_, token)| header.strip_prefix("Bearer ") == Some(*token));
        Ok(user.map(|(name, _)| Owner::Account(name.to_owned())))
    }

    async fn ask(&self, method: Method, path: &str, key: &str, body: Option<&str>) -> Result<(u16, String)> {
        let headers = Headers::new();
        headers.set("idempotency-key", key)?;
        let mut init = RequestInit::new();
        init.with_method(method).with_headers(headers).with_body(body.map(Into::into));
        let request = Fetch::Request(Request::new_with_init(&format!("{}{path}", self.bank), &init)?);
        let (controller, late) = (AbortController::default(), "no answer in time".to_owned());
        let signal = controller.signal();
        let answer = async {
            let mut response = request.send_with_signal(&signal).await?;
            Ok((response.status_code(), text_at_most(&mut response, ANSWER_MAX_BYTES).await?))
        };
        let answer = within(self.times().provider_timeout_ms, answer).await;
        let answer = answer.unwrap_or(Err(worker::Error::RustError(late)));
        if answer.is_err() {
            controller.abort();
        }
        answer
    }
}

impl Host for BankHost {
    type Flow = Transfers;

    /// Short, so that one can watch it. `Times::default()` is for production.
    fn times(&self) -> Times {
        let short = Times { wait_ms: 3_000, completer_ms: 1_500, ..Times::default() };
        Times { lease_ms: self.lease_ms, provider_timeout_ms: 2_000, quiet_ms: 3_000, ..short }
    }

    fn settings(&self) {}

    async fn send(&self, call: &ProviderCall<Transfers>) -> Outcome<Receipt> {
        let unknown = |reason| Outcome::Unknown { answer_is_stored: false, reason };
        let FrozenRequest { path, body, .. } = &call.request;
        match self.ask(Method::Post, path, &call.provider_key, Some(body)).await {
            Ok((status @ (200 | 422), text)) => match serde_json::from_str::<Answer>(&text) {
                Ok(answer) => Outcome::Definitive(reply(status, answer)),
                Err(error) => unknown(error.to_string()),
            },
            Ok((429, _)) => {
                let reason = "too many requests".into();
                Outcome::NotExecuted { retry_after_ms: None, scope: RefusalScope::Copy, reason }
            }
            Ok((status, _)) => unknown(format!("status {status}")),
            Err(error) => unknown(error.to_string()),
        }
    }

    async fn look_up(&self, call: &ProviderCall<Transfers>) -> LookUp<Receipt> {
        let from = |reason| LookUp::Inconclusive { from_the_start: false, reason };
        match self.ask(Method::Get, "/transfers", &call.provider_key, None).await {
            Ok((404, _)) => LookUp::Absent,
            Ok((200, text)) => match serde_json::from_str::<Answer>(&text) {
                Ok(answer) => LookUp::Found(reply(200, answer)),
                Err(error) => from(error.to_string()),
            },
            Ok((status, _)) => from(format!("status {status}")),
            Err(error) => from(error.to_string()),
        }
    }

    /// Tells the payee, by the bank. Without a queue in between a notice that was taken is done.
    async fn deliver(
        &self,
        object: &Object<Self>,
        _: &ObjectState<Transfers>,
        jobs: Vec<StagedJob<()>>,
    ) -> std::result::Result<Vec<NotTaken>, Bug> {
        let mut left = Vec::new();
        for job in jobs {
            match self.ask(Method::Post, "/notices", &job.job_id, Some(&job.payload.to_string())).await {
                Ok((200, _)) => object.confirm(&job.job_id)?,
                other => left.push(NotTaken { job_id: job.job_id, reason: format!("a notice: {other:?}") }),
            }
        }
        Ok(left)
    }
}

/// The object of an account.
#[durable_object(alarm)]
pub struct Accounts(std::result::Result<Rc<Object<BankHost>>, Bug>);

impl DurableObject for Accounts {
    fn new(state: State, env: Env) -> Self {
        let host = || -> Result<BankHost> {
            let lease_ms = env.var("LEASE_MS")?.to_string();
            let lease_ms = lease_ms.parse().map_err(|_| "LEASE_MS is no number")?;
            let [bank, tokens] = [env.var("BANK")?.to_string(), env.var("TOKENS")?.to_string()];
            Ok(BankHost { bank, lease_ms, tokens })
        };
        let host = host().map_err(|error| Bug(error.to_string()));
        Self(host.and_then(|host| Object::open(&state, host)))
    }

    async fn fetch(&self, mut request: Request) -> Result<Response> {
        let object = self.0.as_ref().map_err(failed)?;
        let Some(owner) = object.host().caller(&request)? else {
            return problem(401, "The header Authorization has no token that is known here");
        };
        if request.method() == Method::Get {
            let object_state = object.store().read().map_err(|bug| failed(&bug))?;
            let first = object_state.as_ref().and_then(|object_state| object_state.keys.first());
            if first.is_some_and(|first| first.owner != owner) {
                return problem(403, "The account is somebody else's");
            }
            return Response::from_json(
                &object_state.map(|object_state| object_state.resource.clone()).unwrap_or_default(),
            );
        }
        let header = request.headers().get("idempotency-key")?.unwrap_or_default();
        let Ok(key) = IdempotencyKey::parse(&header) else {
            return problem(400, "The header Idempotency-Key is missing, or has no key in it");
        };
        let (operation, parameters) = match flow::parse(&request.bytes().await?) {
            Ok(read) => read,
            Err(error) => return problem(400, &format!("The body is no transfer: {error}")),
        };
        let command = Command {
            key_hash: key.hash(&owner),
            owner,
            fingerprint: Fingerprint::of("POST", &request.path(), &parameters),
            parameters,
            operation,
            channel: Channel::Api,
            request_id: RequestId(format!("req_{}", random_uuid().map_err(|bug| failed(&bug))?)),
            may_start: true,
            by: None,
            trace: None,
        };
        let wait_ms = object.host().times().wait_ms;
        let ask = Execute { command, wait_ms, is_counted: false, faults: None };
        match object.execute(ask).await.map_err(|bug| failed(&bug))?.result {
            ExecuteResult::Finished { response, replayed, .. } => {
                let answer = Response::from_bytes(response.body)?.with_status(response.status);
                for (name, value) in response.headers {
                    answer.headers().set(&name, &value)?;
                }
                answer.headers().set("idempotent-replayed", &replayed.to_string())?;
                Ok(answer)
            }
            ExecuteResult::Mismatch { .. } => problem(422, "The key stands for another transfer"),
            ExecuteResult::Refused(reason) => problem(409, &reason),
            ExecuteResult::Expired => problem(410, "That was long ago: what it was answered is gone"),
            ExecuteResult::NotOwner => problem(403, "The account is somebody else's"),
            ExecuteResult::NotStarted => problem(409, "Nothing was begun with the key"),
            ExecuteResult::RateLimited => problem(429, "Too many at once"),
            ExecuteResult::InProgress { retry_after_ms }
            | ExecuteResult::Pending { retry_after_ms, .. }
            | ExecuteResult::Interrupted { retry_after_ms } => {
                let answer = problem(503, "It is not known yet how it ends: ask again with the same key")?;
                answer.headers().set("retry-after", &retry_after_ms.div_ceil(1000).max(1).to_string())?;
                Ok(answer)
            }
        }
    }

    async fn alarm(&self) -> Result<Response> {
        // An error makes the guard set the alarm again.
        self.0.as_ref().map_err(failed)?.alarm().await;
        Response::empty()
    }
}

/// Problem details (RFC 9457).
fn problem(status: u16, title: &str) -> Result<Response> {
    let answer = Response::from_json(&json!({ "title": title, "status": status }))?.with_status(status);
    answer.headers().set("content-type", "application/problem+json")?;
    Ok(answer)
}

fn failed(bug: &Bug) -> worker::Error {
    worker::Error::RustError(bug.0.clone())
}

/// Every request goes to the object of its account.
#[event(fetch)]
async fn fetch(request: Request, env: Env, _: Context) -> Result<Response> {
    match request.path().strip_prefix("/accounts/") {
        Some(name) => {
            env.durable_object("ACCOUNTS")?.id_from_name(name)?.get_stub()?.fetch_with_request(request).await
        }
        None => Response::error("not found", 404),
    }
}
