//! What a request's handler has at hand: the settings, and the way to the objects.

use std::cell::Cell;
use std::rc::Rc;

use futures_util::future::LocalBoxFuture;
use serde::de::DeserializeOwned;
use worker::{Env, Method, ResponseBody};

use crate::accounts::{self, Found, Seller, Unreadable, guesses};
use crate::config::Config;
use crate::own_keys::{self, OwnKeys};
use crate::replay_cache::requests::Seen;
use messages::account::Account;
use messages::message::{Answered, ObjectRequest};
use once::id::ObjectId;
use payments::payment::own_keys::account_of;
pub(super) use runtime::objects::ObjectRef;
use runtime::objects::Objects;
use runtime::{limiter, trace};
use web::assets;
use web::http::{Answer, Request};
use web::key_source;
use web::locale::{EN, Messages};
use web::origin::network;
use web::pages::Site;
use web::problem::{Kind, Problem};
use web::reply::ResponseOptions;

/// What is counted of accounts that somebody names. Not with tokens: who has a provider send events to accounts that are not there would spend what its
/// addresses have for tokens, too.
const ACCOUNTS: &str = "accounts";

/// See the module.
pub(super) struct App {
    pub(super) config: Rc<Config>,
    objects: Objects,
    pub(super) env: Env,
    /// The static file that is the body of the answer: the runtime streams it past us.
    pub(super) file: Cell<Option<ResponseBody>>,
    /// What is done once the answer is on its way. It may break off.
    pub(super) afterwards: Cell<Option<LocalBoxFuture<'static, ()>>>,
    /// What was read in the request, if the very same one can be answered by that: it has a key of the client's own, and its answer is final.
    pub(super) seen: Cell<Option<Seen>>,
}

impl App {
    pub(super) fn new(env: &Env) -> Result<Self, String> {
        let config = Config::of(env)?;
        let times = &config.times;
        Ok(Self {
            // A client may ask for more patience than is set (`Prefer: wait`).
            objects: Objects::of(
                env,
                "KEYS",
                times.wait_ms.max(times.provider_timeout_ms).max(key_source::WAIT_MAX_MS),
            ),
            config,
            env: env.clone(),
            file: Cell::new(None),
            afterwards: Cell::new(None),
            seen: Cell::new(None),
        })
    }

    /// The trace of the request: what is asked from here on is part of it.
    pub(super) fn trace(&self, request: &mut Request) {
        request.trace = trace::of(request);
        self.objects.trace(request.trace.as_ref().map(|trace| trace.context));
    }

    pub(super) fn site(&self, request: &Request) -> Site {
        Site { sends_receipts: self.config.email.is_some(), ..site(self.config.demo, request, &EN) }
    }

    /// Tells with the answer where the time went, and the rate that an account has.
    pub(super) fn timed(&self, answer: Answer, request: &Request) -> Answer {
        let answer = self.objects.timed(answer, request);
        match self.config.rate_limit_per_minute {
            Some(limit) if matches!(request.method.as_str(), "POST" | "PUT") => {
                answer.with("ratelimit-policy", format!("\"new-operations\";q={limit};w=60"))
            }
            _ => answer,
        }
    }

    /// How operations are answered here, where the settings differ from the standard.
    pub(super) fn response_options(&self) -> ResponseOptions {
        ResponseOptions {
            mismatch_status: self.mismatch_status(),
            marks_body: self.config.marks_body,
            created_status: self.config.convention.created_status,
        }
    }

    /// The status of a mismatch, where it is not the draft's own.
    fn mismatch_status(&self) -> Option<u16> {
        Some(self.config.mismatch_status).filter(|status| *status != Kind::KeyReused.status())
    }

    /// Counts once in the bucket of a rate limiting binding. Without the binding, or its answer, nobody is held up.
    pub(super) async fn has_room(&self, binding: &str, key: String) -> bool {
        limiter::has_room(&self.env, binding, key).await
    }

    /// Whose token it is.
    pub(super) async fn account_of_token(&self, token: &str, request: &Request) -> Result<Found, Problem> {
        let network = network(request.header("cf-connecting-ip").unwrap_or_default());
        let found = accounts::of_token(&self.env, &self.config, token, &network, request.now_ms);
        found.await.map_err(unreadable_account)
    }

    /// The account of an id, also a closed one.
    pub(super) async fn account_of_id(&self, id: &str, now_ms: u64) -> Result<Option<Seller>, Problem> {
        accounts::of_id(&self.env, &self.config, id, now_ms).await.map_err(unreadable_account)
    }

    /// The keys that an account has of its own; `None` if it has none, and is charged with the deployment's.
    pub(super) async fn own_keys(&self, account: &Account) -> Result<Option<Rc<OwnKeys>>, Problem> {
        match account.at_stripe().and_then(account_of) {
            Some(id) => self.own_keys_of(id).await.map(Some),
            None => Ok(None),
        }
    }

    /// The keys of an account that somebody has named, who may have made it up; `None` where it was not looked up, as
    /// [too many](Self::makes_accounts_up) that are not there came from this network.
    pub(super) async fn own_keys_of_named(
        &self,
        id: &str,
        request: &Request,
    ) -> Result<Option<Rc<OwnKeys>>, Problem> {
        let is_known = own_keys::is_known(&self.config, id);
        if !is_known && self.makes_accounts_up(request) {
            return Ok(None);
        }
        let own = self.own_keys_of(id).await?;
        if !is_known && own.rows.is_empty() {
            self.count_guess(ACCOUNTS, request).await;
        }
        Ok(Some(own))
    }

    /// Whether too many accounts that are not there were named from this request's network a moment ago.
    pub(super) fn makes_accounts_up(&self, request: &Request) -> bool {
        self.is_flooding(ACCOUNTS, request)
    }

    /// Whether too many of these [guesses](guesses) came from this request's network a moment ago.
    pub(super) fn is_flooding(&self, what: &str, request: &Request) -> bool {
        guesses::too_many(&guesser(what, request), request.now_ms)
    }

    /// Counts one.
    pub(super) async fn count_guess(&self, what: &str, request: &Request) {
        guesses::count(&self.env, &guesser(what, request), request.now_ms).await;
    }

    /// The keys of the account of this id; where there are none, none of them.
    pub(super) async fn own_keys_of(&self, id: &str) -> Result<Rc<OwnKeys>, Problem> {
        let (own, _) = own_keys::of(&self.env, &self.config, id).await;
        own.map_err(|own_keys::Unreadable| unreadable_accounts())
    }

    /// The id of the object at a place.
    pub(super) fn object_id(&self, place: &ObjectRef) -> worker::Result<ObjectId> {
        self.objects.id(place)
    }

    /// Whether an id is one of our namespace's. The runtime signs them: a made-up one is not.
    pub(super) fn exists(&self, place: &ObjectRef) -> bool {
        self.objects.exists(place)
    }

    /// Asks an object: see [`Objects::ask`].
    pub(super) async fn ask<T: DeserializeOwned>(
        &self,
        object: &ObjectRef,
        ask: ObjectRequest,
    ) -> worker::Result<T> {
        self.objects.ask(object, ask).await
    }

    /// Asks an object, and is given all that it tells.
    pub(super) async fn ask_whole<T: DeserializeOwned>(
        &self,
        object: &ObjectRef,
        ask: ObjectRequest,
    ) -> worker::Result<Answered<T>> {
        self.objects.ask_whole(object, ask).await
    }

    /// A static file of the build: 200, or 304 if the client has it already; `None` if there is none of this name.
    pub(super) async fn static_file(
        &self,
        path: &str,
        request: &Request,
    ) -> worker::Result<Option<worker::Response>> {
        let asked =
            worker::Request::new(&format!("https://assets{path}"), Method::from(request.method.clone()))?;
        if let Some(known) = request.header("if-none-match") {
            asked.headers().set("if-none-match", known)?;
        }
        let response = self.env.assets("ASSETS")?.fetch_request(asked).await?;
        match response.status_code() {
            200 | 304 => Ok(Some(response)),
            404 => Ok(None),
            status => {
                Err(worker::Error::RustError(format!("the static assets answered {status} for {path}")))
            }
        }
    }
}

fn guesser(what: &str, request: &Request) -> String {
    format!("{what} {}", network(request.header("cf-connecting-ip").unwrap_or_default()))
}

fn unreadable_account(why: Unreadable) -> Problem {
    match why {
        Unreadable::Registry => unreadable_accounts(),
        // Whoever asks is who may not be charged by other settings: it is no secret to them.
        Unreadable::Settings => Problem::because(
            Kind::Misconfigured,
            "The settings of this account cannot be read by this release. Nothing was done, and nothing will be until they can be.",
        ),
    }
}

fn unreadable_accounts() -> Problem {
    let detail =
        "The account could not be looked up. Nothing was done: send the same request again in a moment.";
    Problem::because(Kind::Unavailable, detail).retry_after_s(1)
}

/// What pages need to know.
pub(super) fn site(demo: bool, request: &Request, t: &'static Messages) -> Site {
    let (style, script) = (assets::STYLE.address, assets::SCRIPT.address);
    Site { demo, sends_receipts: false, has_docs: true, origin: request.origin(), style, script, t }
}
