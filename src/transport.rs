//! Carries frozen requests to the providers and brings the answers back.
//!
//! Where a service binding is configured (the demo's simulator: `STRIPE`, `ADYEN`) the call goes there, else to the
//! provider's base address. Every call has a deadline; whatever goes wrong on the way is an unknown outcome. Only what never
//! leaves us, because the provider is not configured any more, is certainly not executed.

use std::borrow::Cow;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use worker::{Env, Response};

use crate::config::{Config, is_live};
use crate::own_keys::{self, OwnKeys, base_of};
use once::account::Credential;
use once::call::{FrozenRequest, RefusalScope};
use payments::engine::{LookUp, Outcome, ProviderCall};
use payments::payment::own_keys::{Merchant, account_of};
use payments::payment::status_query::{StatusQuery, StatusReply};
use payments::providers::{HttpAnswer, Provider, adyen, stripe};
use runtime::http_client::{OutboundRequest, traced};
use web::trace::Span;

/// The ways to the providers.
pub(crate) struct Transport {
    env: Env,
    config: Rc<Config>,
    stripe: Access,
    adyen: Option<Access>,
    /// The keys of the account whose object this is, if it has any of its own and they were [read](Self::prepare).
    own: RefCell<Option<Rc<OwnKeys>>>,
    timeout: Duration,
    unprotected: bool,
}

/// Another key was entered while a request was on its way.
const CHANGED: &str = "the account’s own key was changed at this moment";

/// A way to one provider.
#[derive(Clone)]
struct Access {
    provider: Provider,
    base: String,
    secret: String,
}

impl Transport {
    /// As configured.
    pub(crate) fn new(env: &Env, config: &Rc<Config>) -> Self {
        Self {
            env: env.clone(),
            config: Rc::clone(config),
            stripe: Access {
                provider: Provider::Stripe,
                base: config.stripe_base.clone(),
                secret: config.stripe_key.clone(),
            },
            adyen: config.adyen.as_ref().map(|adyen| Access {
                provider: Provider::Adyen,
                base: adyen.base.clone(),
                secret: adyen.key.clone(),
            }),
            own: RefCell::new(None),
            timeout: Duration::from_millis(config.times.provider_timeout_ms),
            unprotected: config.unprotected,
        }
    }

    /// Reads the keys that an account has of its own: only then a request of theirs can be sent. `true` if D1 was asked for them.
    pub(crate) async fn prepare(&self, config: &Config, account: &str) -> bool {
        let (own, has_waited) = own_keys::of(&self.env, config, account).await;
        self.own.replace(own.ok());
        has_waited
    }

    /// What stands for the account's own key at a provider; `None` if there is none that can be used.
    pub(crate) fn own_credential(&self, provider: Provider) -> Option<Credential> {
        let own = self.own.borrow();
        match provider {
            Provider::Stripe => own.as_ref()?.credential(),
            Provider::Adyen => own.as_ref()?.adyen_credential(),
        }
    }

    /// When the account's own key was set, in ms since the epoch; `None` if there is none.
    pub(crate) fn own_key_set_at_ms(&self) -> Option<u64> {
        self.own.borrow().as_ref()?.set_at_ms()
    }

    /// Of which account at Stripe a key is that is not used yet.
    pub(crate) async fn whose_key(&self, secret: &str) -> Result<HttpAnswer, String> {
        let access = Access { secret: secret.to_owned(), ..self.stripe.clone() };
        let request = FrozenRequest::new("/v1/account".to_owned(), String::new());
        self.exchange(&access, "GET", &request, None, &mut None).await
    }

    /// Whether a key that is not used yet is good for a merchant account at Adyen: what that answers.
    pub(crate) async fn is_key_of(
        &self,
        merchant: &Merchant<'_>,
        secret: &str,
    ) -> Result<HttpAnswer, String> {
        let base = base_of(&self.config, merchant)?;
        let access = Access { provider: Provider::Adyen, base, secret: secret.to_owned() };
        self.exchange(&access, "POST", &adyen::payment_methods(merchant.account), None, &mut None).await
    }

    /// Sends a call that is marked as sending. Never fails: an error on the way means that nobody knows.
    pub(crate) async fn send(&self, call: &ProviderCall, span: &mut Option<Span>) -> Outcome {
        let access = match self.access_of(call).await {
            Ok(access) => access,
            Err(reason) => {
                let scope = RefusalScope::Send;
                return Outcome::NotExecuted { retry_after_ms: None, scope, reason };
            }
        };
        // The demo's control: without our key at the provider a retry is a second charge.
        let key = (!self.unprotected).then_some(call.provider_key.as_str());
        match self.exchange(&access, "POST", &call.request, key, span).await {
            Ok(answer) => call.provider.classify(call, &answer),
            Err(reason) => Outcome::Unknown { answer_is_stored: false, reason },
        }
    }

    /// Asks for the next page of the list in which the payment that a call may have made must stand; or cancels what it has
    /// left open.
    pub(crate) async fn look_up(&self, call: &ProviderCall, span: &mut Option<Span>) -> LookUp {
        let asked_with = self.own_credential(call.provider);
        let answer = match (call.provider.close_request(call), call.provider.look_up_request(call)) {
            (Some(request), _) => {
                let key = call.provider.close_key(call, &request);
                self.exchange_with(call.provider, "POST", &request, key.as_deref(), span).await
            }
            (None, Some(request)) => self.get(call.provider, &request, span).await,
            (None, None) => return adyen::no_look_up(),
        };
        if self.was_changed(asked_with, call.provider, &call.request) {
            let reason = CHANGED.to_owned();
            return LookUp::Inconclusive { from_the_start: true, reason };
        }
        match answer {
            Ok(answer) => call.provider.read_look_up(call, &answer),
            Err(reason) => LookUp::Inconclusive { from_the_start: false, reason },
        }
    }

    /// Asks how a payment or a refund stands. Never fails: an error on the way is the same as no answer.
    pub(crate) async fn ask(&self, question: &StatusQuery, span: &mut Option<Span>) -> StatusReply {
        let provider = question.provider();
        let Some(request) = provider.question_request(question) else {
            return StatusReply::NoAnswer;
        };
        let asked_with = self.own_credential(provider);
        let answer = self.get(provider, &request, span).await;
        if self.was_changed(asked_with, provider, &request) {
            return StatusReply::NoAnswer;
        }
        match answer {
            Ok(answer) => provider.read_status_reply(question, &answer),
            Err(_) => StatusReply::NoAnswer,
        }
    }

    /// Whether the account's own key is another one by now: what the key before it was told says nothing about where this one leads.
    fn was_changed(&self, before: Option<Credential>, provider: Provider, request: &FrozenRequest) -> bool {
        own_account(request).is_some() && self.own_credential(provider) != before
    }

    /// A request that changes nothing. An error is the same as no answer.
    pub(crate) async fn get(
        &self,
        provider: Provider,
        request: &FrozenRequest,
        span: &mut Option<Span>,
    ) -> Result<HttpAnswer, String> {
        self.exchange_with(provider, "GET", request, None, span).await
    }

    async fn exchange_with(
        &self,
        provider: Provider,
        method: &str,
        request: &FrozenRequest,
        key: Option<&str>,
        span: &mut Option<Span>,
    ) -> Result<HttpAnswer, String> {
        let access = self.access(provider, request).await?;
        self.exchange(&access, method, request, key, span).await
    }

    /// The way of a call that is sent: at Stripe with the key that was written down right before, and no other. A key that has changed since then
    /// must first show whose it is. One of Adyen's was good for the merchant account when it was entered, or has no way there.
    async fn access_of(&self, call: &ProviderCall) -> Result<Cow<'_, Access>, String> {
        let access = self.access(call.provider, &call.request).await?;
        if call.provider == Provider::Stripe && own_account(&call.request).is_some() {
            let now = Credential::of(&access.secret, &[&access.base], is_live(&access.secret));
            if call.evidence.sent_to.as_ref().is_none_or(|sent_to| sent_to.credential != now) {
                return Err(format!("{CHANGED}: it is sent again"));
            }
        }
        Ok(access)
    }

    /// The way of a request: with the account's own key, or with the deployment's, and never with the one in the place of the other.
    async fn access(&self, provider: Provider, request: &FrozenRequest) -> Result<Cow<'_, Access>, String> {
        if let Some(account) = own_account(request) {
            let own = self.own.borrow().clone().filter(|own| own.is_of(account));
            let own = own.ok_or_else(|| format!("the keys of {account} were not read"))?;
            return Ok(Cow::Owned(match (provider, request.account.as_deref().and_then(Merchant::of)) {
                (Provider::Stripe, _) => Access { secret: own.secret().await?, ..self.stripe.clone() },
                (Provider::Adyen, Some(merchant)) => Access {
                    provider,
                    base: base_of(&self.config, &merchant)?,
                    secret: own.adyen_key(&merchant).await?,
                },
                (Provider::Adyen, None) => return Err(format!("no merchant account of {account} is named")),
            }));
        }
        match provider {
            Provider::Stripe => Some(&self.stripe),
            Provider::Adyen => self.adyen.as_ref(),
        }
        .map(Cow::Borrowed)
        .ok_or_else(|| format!("the provider {} is not configured any more", provider.as_str()))
    }

    async fn exchange(
        &self,
        access: &Access,
        method: &str,
        request: &FrozenRequest,
        key: Option<&str>,
        span: &mut Option<Span>,
    ) -> Result<HttpAnswer, String> {
        let mut headers = access.headers();
        let connected = request.account.clone().filter(|name| account_of(name).is_none());
        headers.extend(connected.map(|account| ("stripe-account", account)));
        let mut body = None;
        if method == "POST" {
            headers.push(("content-type", access.content_type().to_owned()));
            body = Some(request.body.as_str());
        }
        headers.extend(key.map(|key| ("idempotency-key", key.to_owned())));
        let sent = OutboundRequest { method, url: format!("{}{}", access.base, request.path), headers, body };
        let answer = traced(&self.env, Some(access.binding()), sent, self.timeout, span).await;
        answer.map(|(response, body)| read(access.provider, &response, body))
    }
}

/// The account with whose own keys a request is sent.
fn own_account(request: &FrozenRequest) -> Option<&str> {
    request.account.as_deref().and_then(account_of)
}

impl Access {
    /// The service binding that takes the place of the address.
    const fn binding(&self) -> &'static str {
        match self.provider {
            Provider::Stripe => "STRIPE",
            Provider::Adyen => "ADYEN",
        }
    }

    const fn content_type(&self) -> &'static str {
        match self.provider {
            Provider::Stripe => "application/x-www-form-urlencoded",
            Provider::Adyen => "application/json",
        }
    }

    fn headers(&self) -> Vec<(&'static str, String)> {
        match self.provider {
            Provider::Stripe => vec![
                ("authorization", format!("Bearer {}", self.secret)),
                ("stripe-version", stripe::API_VERSION.to_owned()),
            ],
            Provider::Adyen => vec![("x-api-key", self.secret.clone())],
        }
    }
}

fn read(provider: Provider, response: &Response, body: String) -> HttpAnswer {
    let header = |name: &str| response.headers().get(name).ok().flatten();
    let (should_retry, request_id) = match provider {
        Provider::Stripe => ("stripe-should-retry", "request-id"),
        Provider::Adyen => ("transient-error", "pspreference"),
    };
    HttpAnswer {
        status: response.status_code(),
        should_retry: header(should_retry).and_then(|value| value.parse().ok()),
        retry_after_ms: header("retry-after")
            .and_then(|value| value.parse::<u64>().ok())
            .map(|s| s.saturating_mul(1000)),
        replayed: header("idempotent-replayed").as_deref() == Some("true"),
        request_id: header(request_id),
        body,
    }
}
