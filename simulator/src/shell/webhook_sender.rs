//! Sends webhooks to the merchant: over the service binding `MERCHANT`, or to the address `WEBHOOK_URL`. One at a time.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::time::Duration;

use futures_channel::oneshot;
use futures_util::future::{Either, select};
use worker::wasm_bindgen::JsValue;
use worker::{Delay, Env, Fetch, Fetcher, Headers, Method, Request, RequestInit, RequestRedirect, Result};

use crate::provider::Outgoing;
use crate::registry::PROVIDERS;
use crate::webhooks::{self, Webhooks};

/// Longer than a merchant should take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Over a binding any host will do.
const HOST_OVER_BINDING: &str = "https://merchant.simulator";

/// Sends them.
pub struct WebhookSender {
    /// Which, and how.
    pub webhooks: Webhooks,
    merchant: Option<Fetcher>,
    base: String,
    busy: Cell<bool>,
    queue: RefCell<VecDeque<oneshot::Sender<()>>>,
}

/// The right to send; the next in the queue gets it when it is dropped.
pub struct Turn<'a>(&'a WebhookSender);

impl WebhookSender {
    /// By the Worker's bindings and variables.
    pub fn new(env: &Env) -> Self {
        let text = |name: &str| env.var(name).map(|value| value.to_string()).unwrap_or_default();
        let merchant = env.service("MERCHANT").ok();
        let base = text("WEBHOOK_URL");
        let destination = match &merchant {
            Some(_) => Some("the binding MERCHANT".to_owned()),
            None => Some(base.clone()).filter(|base| !base.is_empty()),
        };
        let variables = PROVIDERS.iter().filter_map(|provider| Some(provider.events()?.secret_variable()));
        let webhooks = Webhooks {
            providers: PROVIDERS,
            destination,
            on: text("WEBHOOKS") == "on",
            secrets: variables.map(|variable| (variable, text(variable))).collect(),
        };
        WebhookSender { webhooks, merchant, base, busy: Cell::new(false), queue: RefCell::default() }
    }

    /// Waits until nobody else sends.
    pub async fn turn(&self) -> Turn<'_> {
        while self.busy.replace(true) {
            let (sender, free) = oneshot::channel();
            self.queue.borrow_mut().push_back(sender);
            // A sender that is gone says the same: look again.
            let _ = free.await;
        }
        Turn(self)
    }

    /// Sends one, and gives the status that was answered.
    pub async fn post(&self, outgoing: &Outgoing) -> std::result::Result<u16, String> {
        let answer = std::pin::pin!(self.fetch(outgoing));
        match select(answer, Delay::from(TIMEOUT)).await {
            Either::Left((answer, _)) => answer.map_err(|error| error.to_string()),
            Either::Right(_) => Err(format!("no answer within {} s", TIMEOUT.as_secs())),
        }
    }

    async fn fetch(&self, outgoing: &Outgoing) -> Result<u16> {
        let headers = Headers::new();
        headers.set("Content-Type", "application/json; charset=utf-8")?;
        if let Some((name, value)) = &outgoing.signature {
            headers.set(name, value)?;
        }
        let mut init = RequestInit::new();
        init.with_method(Method::Post)
            .with_headers(headers)
            .with_body(Some(JsValue::from_str(&outgoing.body)))
            .with_redirect(RequestRedirect::Manual);
        let mut response = match &self.merchant {
            Some(merchant) => {
                merchant.fetch(format!("{HOST_OVER_BINDING}{}", outgoing.path), Some(init)).await?
            }
            None => {
                let address = webhooks::address(&self.base, &outgoing.path);
                Fetch::Request(Request::new_with_init(&address, &init)?).send().await?
            }
        };
        let status = response.status_code();
        // Read to its end, so that the connection is free again; what it says is of no interest.
        let _ = response.bytes().await;
        Ok(status)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.busy.set(false);
        let mut queue = self.0.queue.borrow_mut();
        while let Some(next) = queue.pop_front() {
            if next.send(()).is_ok() {
                break;
            }
        }
    }
}
