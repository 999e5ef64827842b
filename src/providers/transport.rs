//! Carries frozen requests to a provider and brings the answers back.
//!
//! Where a service binding `STRIPE` is configured (the demo's simulator) the call goes there, else to
//! `STRIPE_API_BASE`. Every call has a deadline; whatever goes wrong on the way is an unknown outcome.

use std::time::Duration;

use futures_util::future::{Either, select};
use worker::worker_sys::web_sys;
use worker::{AbortController, Delay, Env, Fetch, Headers, Request, Response};

use super::{HttpAnswer, stripe};
use crate::config::Config;
use crate::machine::call::{ForeignCall, FrozenRequest, LookUp, Outcome};

/// A way to the provider.
pub struct Transport {
    env: Env,
    base: String,
    secret: String,
    timeout: Duration,
    unprotected: bool,
}

impl Transport {
    /// As configured.
    pub fn new(env: &Env, config: &Config) -> Self {
        Self {
            env: env.clone(),
            base: config.stripe_base.clone(),
            secret: config.stripe_key.clone(),
            timeout: Duration::from_millis(config.times.provider_timeout_ms),
            unprotected: config.unprotected,
        }
    }

    /// Sends a call that was armed. Never fails: an error on the way means that nobody knows.
    pub async fn send(&self, call: &ForeignCall) -> Outcome {
        // The demo's control: without our key at the provider a retry is a second charge.
        let key = (!self.unprotected).then_some(call.derived_key.as_str());
        match self.exchange("POST", &call.request, key).await {
            Ok(answer) => call.provider.classify(call, &answer),
            Err(reason) => Outcome::Unknown { answer_is_stored: false, reason },
        }
    }

    /// Asks for the next page of the list in which the payment that a call may have made must stand.
    pub async fn look_up(&self, call: &ForeignCall) -> LookUp {
        match self.exchange("GET", &call.provider.look_up_request(call), None).await {
            Ok(answer) => call.provider.read_look_up(call, &answer),
            Err(reason) => LookUp::Inconclusive { from_the_start: false, reason },
        }
    }

    async fn exchange(
        &self,
        method: &str,
        request: &FrozenRequest,
        key: Option<&str>,
    ) -> Result<HttpAnswer, String> {
        let abort = AbortController::default();
        let signal = abort.signal();
        let exchange = Box::pin(async {
            let request =
                self.request(method, request, key, &signal).map_err(|_| "no request could be made")?;
            // The text of the error may hold an address, never more: but nothing of it is needed.
            let mut response = self.fetch(request).await.map_err(|_| "no answer")?;
            let body = response.text().await.map_err(|_| "the answer broke off")?;
            Ok(read(&response, body))
        });
        match select(exchange, Delay::from(self.timeout)).await {
            Either::Left((answer, _)) => answer,
            Either::Right(((), exchange)) => {
                drop(exchange);
                abort.abort();
                Err(format!("no answer within {} ms", self.timeout.as_millis()))
            }
        }
    }

    fn request(
        &self,
        method: &str,
        request: &FrozenRequest,
        key: Option<&str>,
        signal: &web_sys::AbortSignal,
    ) -> worker::Result<Request> {
        let headers = Headers::new();
        headers.set("authorization", &format!("Bearer {}", self.secret))?;
        headers.set("stripe-version", stripe::API_VERSION)?;
        let init = web_sys::RequestInit::new();
        init.set_method(method);
        init.set_signal(Some(signal));
        // Never carry the secret to another host.
        init.set_redirect(web_sys::RequestRedirect::Manual);
        if method == "POST" {
            headers.set("content-type", "application/x-www-form-urlencoded")?;
            init.set_body(&request.body.as_str().into());
        }
        if let Some(key) = key {
            headers.set("idempotency-key", key)?;
        }
        init.set_headers(&headers.0.into());
        let url = format!("{}{}", self.base, request.path);
        Ok(web_sys::Request::new_with_str_and_init(&url, &init)?.into())
    }

    async fn fetch(&self, request: Request) -> worker::Result<Response> {
        match self.env.service("STRIPE") {
            Ok(binding) => binding.fetch_request(request).await,
            Err(_) => Fetch::Request(request).send().await,
        }
    }
}

fn read(response: &Response, body: String) -> HttpAnswer {
    let header = |name: &str| response.headers().get(name).ok().flatten();
    HttpAnswer {
        status: response.status_code(),
        should_retry: header("stripe-should-retry").and_then(|value| value.parse().ok()),
        retry_after_ms: header("retry-after")
            .and_then(|value| value.parse::<u64>().ok())
            .map(|s| s.saturating_mul(1000)),
        replayed: header("idempotent-replayed").as_deref() == Some("true"),
        request_id: header("request-id"),
        body,
    }
}
