//! What a request's handler has at hand: the settings, and the way to the objects.

use std::cell::Cell;
use std::time::Duration;

use futures_util::future::LocalBoxFuture;
use serde::de::DeserializeOwned;
use worker::{Delay, Env, Method, ObjectNamespace, RequestInit, RequestRedirect, ResponseBody, Stub};

use super::assets;
use super::reply::ResponseOptions;
use crate::config::Config;
use crate::http_client::{TOO_LONG, within};
use crate::log::log;
use crate::object::client;
use crate::object::message::Ask;
use crate::random;
use once::id::ObjectId;
use web::http::{Answer, Request};
use web::pages::Site;
use web::problem::Kind;
use web::reply::CSP;
use web::session::Session;

/// How often an object is asked when its stub fails.
const TRIES: u32 = 3;
/// For the bank's page of the simulator: it brings its style and its empty icon, and its buttons lead back to any shop.
const BANK_PAGE_POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; frame-ancestors 'none'";
/// How much longer an object may take than what it waits for.
const GRACE: Duration = Duration::from_secs(15);
/// How long a rate limiter may take.
const LIMITER_WITHIN: Duration = Duration::from_secs(2);
/// The pause before it is asked again; longer each time.
const PAUSE: Duration = Duration::from_millis(50);

/// Where an object is.
pub(super) enum ObjectRef {
    /// An API key's or an order's object, found by name.
    Named(String),
    /// A form's or a resource's object, by its own id.
    Id(ObjectId),
}

/// See the module.
pub(super) struct App {
    pub(super) config: Config,
    /// How long this request has waited for objects, in ms.
    object_ms: Cell<u64>,
    /// How much of that the objects waited for the provider, in ms.
    provider_ms: Cell<u64>,
    pub(super) env: Env,
    /// The static file that is the body of the answer: the runtime streams it past us.
    pub(super) file: Cell<Option<ResponseBody>>,
    /// What is done once the answer is on its way. It may break off.
    pub(super) afterwards: Cell<Option<LocalBoxFuture<'static, ()>>>,
}

impl App {
    pub(super) fn new(env: &Env) -> Result<Self, String> {
        Ok(Self {
            config: Config::of(env)?,
            env: env.clone(),
            object_ms: Cell::new(0),
            provider_ms: Cell::new(0),
            file: Cell::new(None),
            afterwards: Cell::new(None),
        })
    }

    pub(super) fn site(&self, request: &Request) -> Site {
        Site { sends_receipts: self.config.email.is_some(), ..site(self.config.demo, request) }
    }

    /// Tells with the answer where the time went ([`Server-Timing`](https://www.w3.org/TR/server-timing/)), and the rate
    /// that an account has.
    pub(super) fn timed(&self, answer: Answer, request: &Request) -> Answer {
        let total_ms = worker::Date::now().as_millis().saturating_sub(request.now_ms);
        let (object_ms, provider_ms) = (self.object_ms.get(), self.provider_ms.get());
        let timing = format!("total;dur={total_ms}, object;dur={object_ms}, provider;dur={provider_ms}");
        let answer = answer.with("server-timing", timing);
        match self.config.rate_limit_per_minute {
            Some(limit) if request.method == "POST" => {
                answer.with("ratelimit-policy", format!("\"new-operations\";q={limit};w=60"))
            }
            _ => answer,
        }
    }

    /// How operations are answered here, where the settings differ from the standard.
    pub(super) fn response_options(&self) -> ResponseOptions {
        ResponseOptions { mismatch_status: self.mismatch_status(), marks_body: self.config.marks_body }
    }

    /// The status of a mismatch, where it is not the draft's own.
    fn mismatch_status(&self) -> Option<u16> {
        Some(self.config.mismatch_status).filter(|status| *status != Kind::KeyReused.status())
    }

    /// Counts once in the bucket of a rate limiting binding. Without the binding, or its answer, nobody is held up.
    pub(super) async fn has_room(&self, binding: &str, key: String) -> bool {
        let Ok(limiter) = self.env.rate_limiter(binding) else {
            return true;
        };
        match within(LIMITER_WITHIN, "the rate limiter", limiter.limit(key)).await {
            Ok(outcome) => outcome.success,
            Err(error) => {
                log("warn", &[("event", "rate_limiter_failed".into()), ("error", error.to_string().into())]);
                true
            }
        }
    }

    fn objects(&self) -> worker::Result<ObjectNamespace> {
        self.env.durable_object("KEYS")
    }

    /// A fresh unique id: the object does not exist before it is called.
    pub(super) fn fresh_object(&self) -> worker::Result<ObjectId> {
        parse_id(&self.objects()?.unique_id()?.to_string())
    }

    /// The id of the object at a place.
    pub(super) fn object_id(&self, place: &ObjectRef) -> worker::Result<ObjectId> {
        match place {
            ObjectRef::Id(id) => Ok(*id),
            ObjectRef::Named(name) => parse_id(&self.objects()?.id_from_name(name)?.to_string()),
        }
    }

    /// Whether an id is one of our namespace's. The runtime signs them: a made-up one is not.
    pub(super) fn exists(&self, place: &ObjectRef) -> bool {
        self.stub(place).is_ok()
    }

    fn stub(&self, place: &ObjectRef) -> worker::Result<Stub> {
        let objects = self.objects()?;
        match place {
            ObjectRef::Named(name) => objects.id_from_name(name)?.get_stub(),
            ObjectRef::Id(id) => objects.id_from_string(&id.to_hex())?.get_stub(),
        }
    }

    /// A static file of the build: 200, or 304 if the client has it already.
    pub(super) async fn static_file(
        &self,
        path: &str,
        request: &Request,
    ) -> worker::Result<worker::Response> {
        let asked =
            worker::Request::new(&format!("https://assets{path}"), Method::from(request.method.clone()))?;
        if let Some(known) = request.header("if-none-match") {
            asked.headers().set("if-none-match", known)?;
        }
        let response = self.env.assets("ASSETS")?.fetch_request(asked).await?;
        match response.status_code() {
            200 | 304 => Ok(response),
            status => {
                Err(worker::Error::RustError(format!("the static assets answered {status} for {path}")))
            }
        }
    }

    /// Asks an object. An exception from a stub says nothing about what was done: the key makes it safe to ask again,
    /// with a new stub, after a short pause. Not of an object that has too much to do, or that has not answered for long. A
    /// failure that was asked for strikes only once.
    pub(super) async fn ask<T: DeserializeOwned>(
        &self,
        object: &ObjectRef,
        mut ask: Ask,
    ) -> worker::Result<T> {
        let mut tried = 1;
        loop {
            let error = match self.ask_once(object, &ask).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let text = error.to_string();
            if tried == TRIES || text.contains("overloaded") || text.contains(TOO_LONG) {
                return Err(error);
            }
            Delay::from(PAUSE * tried).await;
            tried += 1;
            if let Ask::Run(run) = &mut ask {
                run.fault = None;
            }
        }
    }

    /// How long an object may take: whatever it waits for, and then some.
    fn patience(&self) -> Duration {
        let times = &self.config.times;
        Duration::from_millis(times.wait_ms.max(times.provider_timeout_ms)).saturating_add(GRACE)
    }

    async fn ask_once<T: DeserializeOwned>(&self, object: &ObjectRef, ask: &Ask) -> worker::Result<T> {
        let asked_at_ms = worker::Date::now().as_millis();
        let stub = self.stub(object)?;
        let asked = client::ask_stub(&stub, ask);
        let answered = within(self.patience(), "the object's answer", asked).await;
        let waited_ms = worker::Date::now().as_millis().saturating_sub(asked_at_ms);
        self.object_ms.set(self.object_ms.get().saturating_add(waited_ms));
        let (answer, provider_ms) = answered?;
        self.provider_ms.set(self.provider_ms.get().saturating_add(provider_ms));
        Ok(answer)
    }
}

impl App {
    /// Hands a request on to the demo's simulator, without anything that says who asks.
    pub(super) async fn simulated(&self, request: &Request) -> worker::Result<Answer> {
        let headers = worker::Headers::new();
        if let Some(content_type) = request.header("content-type") {
            headers.set("content-type", content_type)?;
        }
        let mut init = RequestInit::new();
        init.with_headers(headers).with_redirect(RequestRedirect::Manual);
        if request.method == "POST" {
            let body = js_sys::Uint8Array::from(request.body.as_slice());
            init.with_method(Method::Post).with_body(Some(body.into()));
        }
        let url = format!("{}{}?{}", self.config.stripe_base, request.path, request.query);
        let forwarded = worker::Request::new_with_init(&url, &init)?;
        let mut response = self.env.service("STRIPE")?.fetch_request(forwarded).await?;
        let header = |name: &str| response.headers().get(name).ok().flatten();
        // What an email's HTML may do is for the mailbox to say; the bank's page has a form to press, and nothing else.
        let policy = header(CSP).filter(|_| request.path.starts_with("/_sim/mailbox"));
        let policy = policy.unwrap_or_else(|| BANK_PAGE_POLICY.to_owned());
        let mut answer = Answer::empty(response.status_code(), "simulated").with(CSP, policy);
        for name in ["content-type", "location"] {
            if let Some(value) = header(name) {
                answer = answer.with(name, value);
            }
        }
        answer.body = response.bytes().await?;
        Ok(answer)
    }
}

/// What pages need to know.
pub(super) fn site(demo: bool, request: &Request) -> Site {
    let (style, script) = (assets::STYLE.address, assets::SCRIPT.address);
    Site { demo, sends_receipts: false, origin: request.origin(), style, script }
}

/// The session of a browser, or a new one.
pub(super) fn session(request: &Request) -> worker::Result<Session> {
    let known = request.header("cookie").and_then(|cookies| Session::from_cookies(cookies, request.secure()));
    match known {
        Some(session) => Ok(session),
        None => Ok(Session::new(random::uuid()?)),
    }
}

fn parse_id(hex: &str) -> worker::Result<ObjectId> {
    ObjectId::from_hex(hex).ok_or_else(|| worker::Error::RustError("an object id of another form".into()))
}
