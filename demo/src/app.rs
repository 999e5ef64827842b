//! What a request's handler has at hand: the settings, and the ways to the other Workers.

use std::time::Duration;

use worker::Env;

use crate::config::Config;
use runtime::http_client::{OutboundRequest, fetch};
use runtime::objects::Objects;
use web::assets::{SCRIPT, STYLE};
use web::http::Request;
use web::pages::Site;

/// How long another Worker may take. Nobody here waits as long.
const TIMEOUT: Duration = Duration::from_secs(30);

/// See the module.
pub(crate) struct App {
    pub(crate) config: Config,
    pub(crate) rides: Objects,
    env: Env,
}

/// Another Worker. It is reached over its binding and in no other way: what the demo's shop sends has no protection, so it must never get
/// to a real bank.
#[derive(Clone, Copy)]
pub(crate) enum Service {
    /// The payments Worker.
    Payments,
    /// The simulator: the bank.
    Simulator,
}

impl Service {
    /// Its name in wrangler.toml.
    const fn binding(self) -> &'static str {
        match self {
            Self::Payments => "PAYMENTS",
            Self::Simulator => "SIMULATOR",
        }
    }
}

/// An answer of another Worker.
pub(crate) struct Reply {
    response: worker::Response,
    pub(crate) status: u16,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<String> {
        self.response.headers().get(name).ok().flatten()
    }
}

impl App {
    pub(crate) fn new(env: &Env) -> Result<Self, String> {
        let config = Config::of(env)?;
        let rides = Objects::of(env, "RIDES", config.times.wait_ms.max(config.times.provider_timeout_ms));
        Ok(Self { config, rides, env: env.clone() })
    }

    /// Sends a request to another Worker. An error means that it is unknown whether it arrived.
    pub(crate) async fn send(
        &self,
        service: Service,
        request: &OutboundRequest<'_>,
    ) -> worker::Result<Reply> {
        let binding = service.binding();
        self.env.service(binding)?;
        let answer = fetch(&self.env, Some(binding), request, TIMEOUT).await;
        let (response, body) =
            answer.map_err(|error| worker::Error::RustError(format!("{binding}: {error}")))?;
        Ok(Reply { status: response.status_code(), response, body })
    }
}

/// What pages need to know.
pub(crate) fn site(request: &Request) -> Site {
    Site {
        demo: true,
        sends_receipts: true,
        has_docs: true,
        origin: request.origin(),
        style: STYLE.address,
        script: SCRIPT.address,
        t: &web::locale::EN,
    }
}
