//! The object's way to the origin: it sends, it asks, and it seals what is kept of an answer.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::{Either, select};
use messages::gate::TELL;
use once::call::{LookUp, Outcome, ProviderCall, ProviderReply, RefusalScope};
use once::context::Bug;
use once::id::Owner;
use once::object_state::{ObjectState, StagedJob};
use once::outbox;
use once::times::Times;
use once_object::object::{Host, NotTaken, Object};
use runtime::db::Db;
use runtime::http_client::within;
use runtime::limiter::has_room;
use runtime::log::log;
use runtime::now_ms;
use serde_json::Value;
use web::url::{Url, join};
use worker::js_sys::Uint8Array;
use worker::wasm_bindgen::JsValue;
use worker::worker_sys::web_sys;
use worker::{AbortController, ByteStream, Delay, Env, Fetch, Headers, Response, ResponseBody, Result};

use crate::bucket::{self, ROW_MAX};
use crate::cookies::{self, Sent};
use crate::domain::{Again, Intent, OnUnknown, PassOn, Reply, ends, without_answer};
use crate::headers::{GoesOn, goes_on, is_answers};
use crate::meaning::{Ended, Rules, Seen};
use crate::read_model;
use crate::sealed::{self, Head, Kept};
use crate::secret::Secret;
use crate::stream::Watched;

/// How long the read model has to take what it is told.
const TAKES_WITHIN: Duration = Duration::from_secs(3);
/// How often a request goes on to another address.
const GOES_ON_MAX: u32 = 5;
/// How often one key may be sent after refusals; with `one_at_a_time`, how often a visitor may send to one address within twice `keep_ms`.
pub(crate) const TRIES_MAX: u32 = 100;

/// A request that somebody has brought: in memory alone.
pub(crate) struct Outgoing {
    pub(crate) method: String,
    pub(crate) url: String,
    /// The site's own origin, as the visitor has it.
    pub(crate) ours: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Rc<Payload>,
    pub(crate) secret: Secret,
    pub(crate) first: Vec<Sent>,
    pub(crate) rules: Rules,
    pub(crate) max_answer: usize,
    pub(crate) timeout: Duration,
    pub(crate) on_unknown: OnUnknown,
}

/// What is sent.
pub(crate) enum Payload {
    /// Held in memory.
    Held(Vec<u8>),
    /// Too large for that: it can be sent once.
    Passing(RefCell<Option<Watched>>),
}

/// What the objects of this Worker are made with.
pub(crate) struct GateHost {
    pub(crate) env: Env,
    pub(crate) times: Cell<Times>,
    /// Whence the newest request has come.
    pub(crate) network: RefCell<String>,
    /// What can be sent, by the number of its key.
    pub(crate) outgoing: RefCell<HashMap<u32, Rc<Outgoing>>>,
    /// Answers that are too large to be kept, for whoever has sent what they answer.
    pub(crate) large: RefCell<HashMap<u32, Response>>,
}

/// An answer of the origin, as far as it is read.
struct Answered {
    /// Where it was given: the request may have gone on from its own address.
    address: String,
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    /// What there is more of it.
    rest: Option<ByteStream>,
}

impl Answered {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
    }

    fn retry_after_ms(&self) -> Option<u64> {
        let seconds: u64 = self.header("retry-after")?.trim().parse().ok()?;
        Some(seconds.saturating_mul(1000))
    }
}

impl GateHost {
    pub(crate) fn new(env: Env) -> Self {
        Self {
            env,
            times: Cell::default(),
            network: RefCell::default(),
            outgoing: RefCell::default(),
            large: RefCell::default(),
        }
    }

    /// How large an answer may be to be kept, in bytes: a row takes less than a bucket.
    pub(crate) fn keeps(&self, max_answer: usize) -> usize {
        if bucket::is_bound(&self.env) { max_answer } else { max_answer.min(ROW_MAX) }
    }

    /// Whether there is a read model to tell.
    pub(crate) fn tells(&self) -> bool {
        Db::of(&self.env).is_ok()
    }

    /// Tells the read model how these operations stand now.
    async fn tell(&self, state: &ObjectState<PassOn>, jobs: &[StagedJob<()>]) -> Result<()> {
        let told: Vec<_> = jobs
            .iter()
            .filter_map(read_model::number_of)
            .filter_map(|number| read_model::row(state, number))
            .collect();
        if told.is_empty() || !self.tells() {
            return Ok(());
        }
        let state = serde_json::to_string(&told)?;
        let run = async { Db::of(&self.env)?.run(TELL, vec![state.into()]).await };
        within(TAKES_WITHIN, "the read model", run).await.map(drop)
    }

    fn brought(&self, call: &ProviderCall<PassOn>) -> Option<Rc<Outgoing>> {
        self.outgoing.borrow().get(&call.key_id).cloned()
    }

    async fn pass_on(&self, outgoing: &Outgoing, call: &ProviderCall<PassOn>) -> Outcome<Reply> {
        let unknown = |reason| Outcome::Unknown { answer_is_stored: false, reason };
        let (body, watched) = match &*outgoing.body {
            Payload::Held(bytes) => ((!bytes.is_empty()).then(|| Uint8Array::from(&bytes[..]).into()), None),
            Payload::Passing(body) => match body.take() {
                Some(watched) => (Some(watched.body.clone()), Some(watched)),
                None => return not_brought(),
            },
        };
        let goes_on = if watched.is_none() { GOES_ON_MAX } else { 0 };
        let answered = match exchange(outgoing, &outgoing.method, &outgoing.url, Some(body), goes_on).await {
            Ok(answered) => answered,
            // Nobody works on a body that is not whole, unless the origin has begun to answer before its end, or may have been at work all the time.
            Err(reason)
                if reason == NO_ANSWER
                    && watched.is_some_and(|watched| watched.is_broken())
                    && ends(call, Ended::NeverSent, false) =>
            {
                return never_sent();
            }
            Err(reason) => return unknown(reason),
        };
        let ended = outgoing.rules.judge(Seen {
            status: answered.status,
            is_json: answered.header("content-type").is_some_and(|kind| kind.contains("json")),
            address: &answered.address,
            location: answered.header("location").unwrap_or_default(),
            body: &answered.body,
        });
        if ended == Ended::Unknown {
            if matches!(answered.status, 307 | 308) {
                let to = join(&answered.address, answered.header("location").unwrap_or_default());
                let fields = [
                    ("event", "redirect_not_followed".into()),
                    ("route", call.request.path.as_str().into()),
                    ("to", Url::split(&to).host.into()),
                ];
                log("error", &fields);
            }
            return unknown(format!("status {}", answered.status));
        }
        let status = answered.status;
        if !ends(call, ended, answered.header("idempotent-replayed") == Some("true")) {
            return Outcome::NotExecuted {
                retry_after_ms: answered.retry_after_ms(),
                scope: RefusalScope::Copy,
                reason: format!("status {status}, which says nothing of what was sent before"),
            };
        }
        let (sealed, in_bucket) = self.keep(outgoing, call.key_id, answered).await;
        Outcome::Definitive(ProviderReply {
            status,
            result: Reply { ended, in_bucket, sealed },
            request_id: None,
        })
    }

    /// Seals what is kept of an answer, and says whether its body lies in the bucket. What cannot be kept is for whoever has asked alone: it is
    /// true all the same.
    async fn keep(&self, outgoing: &Outgoing, key_id: u32, answered: Answered) -> (Vec<u8>, bool) {
        let Answered { headers, body, rest, .. } = answered;
        let is_small = body.len() <= ROW_MAX;
        let head =
            Head { headers, first: outgoing.first.clone(), is_whole: rest.is_none(), in_bucket: false };
        let mut kept = Kept { head, body };
        let large = match rest {
            None if is_small => None,
            None => {
                kept.head.in_bucket = true;
                if let Err(error) = self.put(outgoing, key_id, &kept).await {
                    log("warn", &[("event", "not_kept".into()), ("error", error.to_string().into())]);
                    (kept.head.is_whole, kept.head.in_bucket) = (false, false);
                }
                Response::from_bytes(std::mem::take(&mut kept.body)).ok()
            }
            Some(rest) => {
                let body = std::mem::take(&mut kept.body);
                Response::from_stream(futures_util::stream::once(async move { Ok(body) }).chain(rest)).ok()
            }
        };
        self.large.borrow_mut().extend(large.map(|large| (key_id, large)));
        let sealed = sealed::seal(&kept, &outgoing.secret).await.unwrap_or_else(|error| {
            log("error", &[("event", "not_sealed".into()), ("error", error.to_string().into())]);
            Vec::new()
        });
        (sealed, kept.head.in_bucket)
    }

    async fn put(&self, outgoing: &Outgoing, key_id: u32, kept: &Kept) -> Result<()> {
        let sealed = sealed::seal(kept, &outgoing.secret).await?;
        bucket::put(&self.env, &outgoing.secret.name(), key_id, sealed).await
    }

    /// Asks the origin on behalf of the visitor what became of it.
    async fn ask_origin(&self, outgoing: &Outgoing, call: &ProviderCall<PassOn>) -> LookUp<Reply> {
        let unclear = |reason| LookUp::Inconclusive { from_the_start: true, reason };
        let OnUnknown::Lookup { get, done } = &outgoing.on_unknown else {
            return unclear("the route asks nobody any more".to_owned());
        };
        let origin = Url::split(&outgoing.url);
        let url = format!("{}://{}{}", origin.scheme, origin.host, get.replace("{key}", &call.provider_key));
        match exchange(outgoing, "GET", &url, None, 0).await {
            Ok(answered) if answered.status == *done => {
                let status = answered.status;
                let (sealed, in_bucket) = self.keep(outgoing, call.key_id, answered).await;
                found(status, Reply { ended: Ended::Done, in_bucket, sealed })
            }
            // Who is not known, comes too often or is led elsewhere, be it to a log-in that no setting names, is told nothing.
            Ok(answered) if matches!(answered.status, 300..=399 | 401 | 403 | 407 | 408 | 425 | 429) => {
                unclear(format!("status {}", answered.status))
            }
            Ok(answered) if matches!(answered.status, 200..=499) => LookUp::Absent,
            Ok(answered) => unclear(format!("status {}", answered.status)),
            Err(reason) => unclear(reason),
        }
    }
}

const fn found(status: u16, result: Reply) -> LookUp<Reply> {
    LookUp::Found(ProviderReply { status, result, request_id: None })
}

fn never_sent() -> Outcome<Reply> {
    let result = without_answer(Ended::NeverSent);
    Outcome::Definitive(ProviderReply { status: 502, result, request_id: None })
}

fn not_brought() -> Outcome<Reply> {
    let reason = "nobody has brought it again".to_owned();
    Outcome::NotExecuted { retry_after_ms: None, scope: RefusalScope::NoClient, reason }
}

/// Asks the origin. An error means that it is unknown whether it got it; its text quotes nothing of it. A request goes on so often to where it is led with
/// its body.
async fn exchange(
    outgoing: &Outgoing,
    method: &str,
    url: &str,
    body: Option<Option<JsValue>>,
    goes_on_max: u32,
) -> std::result::Result<Answered, String> {
    let abort = AbortController::default();
    let signal = abort.signal();
    let work = Box::pin(async {
        let init = web_sys::RequestInit::new();
        init.set_method(method);
        init.set_signal(Some(&signal));
        init.set_redirect(web_sys::RequestRedirect::Manual);
        let headers = headers_of(&outgoing.headers, body.is_some()).map_err(|_| NO_REQUEST)?;
        init.set_headers(&headers.0);
        if let Some(body) = body.flatten() {
            init.set_body(&body);
        }
        let (mut url, mut led, mut set_cookies) = (url.to_owned(), 0, Vec::new());
        let mut response = loop {
            let request = web_sys::Request::new_with_str_and_init(&url, &init).map_err(|_| NO_REQUEST)?;
            let response = Fetch::Request(request.into()).send().await.map_err(|_| NO_ANSWER)?;
            let location = response.headers().get("location").ok().flatten().unwrap_or_default();
            match goes_on(response.status_code(), &url, &location, &outgoing.ours) {
                Some(GoesOn { to, is_https })
                    if led < goes_on_max && !outgoing.rules.asks_who(&url, &location) =>
                {
                    if is_https {
                        headers.set("x-forwarded-proto", "https").map_err(|_| NO_REQUEST)?;
                    }
                    let set = response.headers().get_all("set-cookie").unwrap_or_default();
                    if !set.is_empty() {
                        let cookie = headers.get("cookie").ok().flatten().unwrap_or_default();
                        let cookie = cookies::after(&cookie, &set, Url::split(&to).path);
                        headers.set("cookie", &cookie).map_err(|_| NO_REQUEST)?;
                    }
                    set_cookies.extend(set);
                    (url, led) = (to, led + 1);
                }
                _ => break response,
            }
        };
        let mut headers = answered_headers(response.headers(), set_cookies);
        // The visitor does not know that it was led on.
        for (_, location) in headers.iter_mut().filter(|(name, _)| led > 0 && name == "location") {
            *location = join(&url, location);
        }
        let status = response.status_code();
        let mut answered = Answered { address: url, status, headers, body: Vec::new(), rest: None };
        if let ResponseBody::Stream(_) = response.body() {
            let mut stream = response.stream().map_err(|_| BROKE_OFF)?;
            while let Some(chunk) = stream.next().await {
                answered.body.extend(chunk.map_err(|_| BROKE_OFF)?);
                if answered.body.len() > outgoing.max_answer {
                    answered.rest = Some(stream);
                    break;
                }
            }
        }
        Ok(answered)
    });
    match select(work, Delay::from(outgoing.timeout)).await {
        Either::Left((answered, _)) => answered,
        Either::Right(((), work)) => {
            drop(work);
            abort.abort();
            Err(format!("no answer within {} ms", outgoing.timeout.as_millis()))
        }
    }
}

const NO_REQUEST: &str = "no request could be made";
/// Not even its beginning.
const NO_ANSWER: &str = "no answer";
const BROKE_OFF: &str = "the answer broke off";

/// What is sent: of a body's own headers none without it.
fn headers_of(pairs: &[(String, String)], has_body: bool) -> Result<Headers> {
    let headers = Headers::new();
    for (name, value) in pairs {
        if has_body || !name.starts_with("content-") {
            headers.append(name, value)?;
        }
    }
    Ok(headers)
}

/// The headers of an answer that belong to it, after those of what has led to it.
fn answered_headers(headers: &Headers, set_cookies: Vec<String>) -> Vec<(String, String)> {
    let all = headers.entries().filter(|(name, value)| is_answers(name, value) && name != "set-cookie");
    let cookies = headers.get_all("set-cookie").unwrap_or_default();
    all.chain(set_cookies.into_iter().chain(cookies).map(|value| ("set-cookie".to_owned(), value))).collect()
}

impl Host for GateHost {
    type Flow = PassOn;

    fn times(&self) -> Times {
        self.times.get()
    }

    fn settings(&self) {}

    fn keys_max(&self) -> u32 {
        TRIES_MAX
    }

    async fn send(&self, call: &ProviderCall<PassOn>) -> Outcome<Reply> {
        if let Some(outgoing) = self.brought(call) {
            return self.pass_on(&outgoing, call).await;
        }
        // The gate died before it was sent, and nobody has brought it again.
        if call.sends <= 1 && !call.maybe_executed {
            return never_sent();
        }
        not_brought()
    }

    async fn look_up(&self, call: &ProviderCall<PassOn>) -> LookUp<Reply> {
        let times = self.times.get();
        let age_ms = now_ms().saturating_sub(call.first_sent_at_ms.unwrap_or(0));
        match self.brought(call) {
            Some(outgoing) if call.provider == Again::Ask => self.ask_origin(&outgoing, call).await,
            // It cannot be sent again any more, and there is nothing to ask.
            _ if call.provider != Again::Ask || age_ms > times.retention_ms => {
                found(502, without_answer(Ended::Unknown))
            }
            _ => LookUp::NoClient {
                reason: "it is asked for with the visitor's cookies: they have not come again".to_owned(),
            },
        }
    }

    /// Each new key makes an object that stays.
    async fn may_start(&self, _: &Owner) -> bool {
        let network = self.network.borrow().clone();
        has_room(&self.env, "NEW_LIMITER", network).await
    }

    /// Deletes from the bucket what nobody can be given any more.
    async fn woken(&self, object: &Rc<Object<Self>>) {
        let Ok(Some(state)) = object.store().read() else { return };
        // All keys of an object have one name, also those that are forgotten.
        let Some(name) = state.keys.first().map(read_model::name) else { return };
        for number in Intent::over_in_bucket(&state) {
            let deleted =
                bucket::delete(&self.env, name, number).await.map_err(|error| Bug(error.to_string()));
            let forgotten = deleted.and_then(|()| {
                object.store().transaction(&object.context(), |state| {
                    state.resource.in_bucket.remove(&number);
                    Ok(())
                })
            });
            if let Err(bug) = forgotten {
                object.log("warn", "not_deleted", &[("error", bug.0.as_str().into())]);
            }
        }
    }

    async fn deliver(
        &self,
        object: &Object<Self>,
        _: &ObjectState<PassOn>,
        jobs: Vec<StagedJob<()>>,
    ) -> std::result::Result<Vec<NotTaken>, Bug> {
        let Some(state) = object.store().read_counted()? else { return Ok(Vec::new()) };
        if let Err(error) = self.tell(&state, &jobs).await {
            let not_taken = |job: StagedJob<()>| NotTaken { job_id: job.job_id, reason: error.to_string() };
            return Ok(jobs.into_iter().map(not_taken).collect());
        }
        // It is told: there is nothing to wait for.
        object.store().transaction(&object.context(), |state| {
            jobs.iter().for_each(|job| outbox::confirm(state, &job.job_id));
            Ok::<_, Bug>(())
        })?;
        Ok(Vec::new())
    }

    fn log(&self, level: &str, fields: &[(&str, Value)]) {
        log(level, fields);
    }
}
