//! What a request's handler has at hand: the settings, and the way to the objects.

use std::time::Duration;

use serde::de::DeserializeOwned;
use worker::wasm_bindgen::JsValue;
use worker::{Delay, Env, Method, ObjectNamespace, RequestInit, Stub};

use super::pages::Site;
use super::session::Session;
use crate::config::{Config, setting};
use crate::edge::http::Request;
use crate::machine::id::ObjectId;
use crate::machine::key::KeyHash;
use crate::object::message::{Ask, Envelope, VERSION};

/// How often an object is asked when its stub fails.
const TRIES: u32 = 3;
/// The pause before it is asked again; longer each time.
const PAUSE: Duration = Duration::from_millis(50);

/// Where an object is.
pub(super) enum ObjectRef {
    /// An API key's object, found by name.
    Named(KeyHash),
    /// A form's or a resource's object, by its own id.
    Id(ObjectId),
}

/// See the module.
pub(super) struct App {
    pub(super) config: Config,
    env: Env,
}

impl App {
    pub(super) fn new(env: &Env) -> Result<Self, String> {
        Ok(Self { config: Config::read(|name| setting(env, name))?, env: env.clone() })
    }

    pub(super) fn site(&self, request: &Request) -> Site {
        site(self.config.demo, request)
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
            ObjectRef::Named(hash) => {
                parse_id(&self.objects()?.id_from_name(&hash.object_name())?.to_string())
            }
        }
    }

    /// Whether an id is one of our namespace's. The runtime signs them: a made-up one is not.
    pub(super) fn exists(&self, place: &ObjectRef) -> bool {
        self.stub(place).is_ok()
    }

    fn stub(&self, place: &ObjectRef) -> worker::Result<Stub> {
        let objects = self.objects()?;
        match place {
            ObjectRef::Named(hash) => objects.id_from_name(&hash.object_name())?.get_stub(),
            ObjectRef::Id(id) => objects.id_from_string(&id.to_hex())?.get_stub(),
        }
    }

    /// Asks an object. An exception from a stub says nothing about what was done: the key makes it safe to ask again,
    /// with a new stub, after a short pause. Not of an object that has too much to do. A failure that was asked for
    /// strikes only once.
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
            if tried == TRIES || error.to_string().contains("overloaded") {
                return Err(error);
            }
            Delay::from(PAUSE * tried).await;
            tried += 1;
            if let Ask::Run(run) = &mut ask {
                run.fault = None;
            }
        }
    }

    async fn ask_once<T: DeserializeOwned>(&self, object: &ObjectRef, ask: &Ask) -> worker::Result<T> {
        let body = serde_json::to_string(&Envelope { version: VERSION, message: ask })?;
        let mut init = RequestInit::new();
        init.with_method(Method::Post).with_body(Some(JsValue::from_str(&body)));
        let request = worker::Request::new_with_init("https://object/", &init)?;
        let mut response = self.stub(object)?.fetch_with_request(request).await?;
        if response.status_code() != 200 {
            return Err(worker::Error::RustError(format!("the object answered {}", response.status_code())));
        }
        let envelope: Envelope<T> = response.json().await?;
        Ok(envelope.message)
    }
}

/// What pages need to know.
pub(super) fn site(demo: bool, request: &Request) -> Site {
    let (style, script) = (super::handle::STYLE.address, super::handle::SCRIPT.address);
    Site { demo, origin: request.origin(), style, script }
}

/// The session of a browser, or a new one.
pub(super) fn session(request: &Request) -> worker::Result<Session> {
    let known = request.header("cookie").and_then(|cookies| Session::from_cookies(cookies, request.secure()));
    match known {
        Some(session) => Ok(session),
        None => {
            let mut random = [0; 16];
            getrandom::fill(&mut random).map_err(|error| worker::Error::RustError(error.to_string()))?;
            Ok(Session::new(random))
        }
    }
}

fn parse_id(hex: &str) -> worker::Result<ObjectId> {
    ObjectId::from_hex(hex).ok_or_else(|| worker::Error::RustError("an object id of another form".into()))
}
