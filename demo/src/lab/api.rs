//! The client of the payments API: what a shop with Paid Once does. Every press of Pay for an order has the order's own idempotency key.

use serde::de::DeserializeOwned;
use worker::Delay;

use super::ledger::Side;
use super::payment::{Key, PaymentView, saw};
use super::{ClientOutcome, ExperimentId, InjectedFault, PAUSE, PRICE_MINOR, page};
use crate::app::{App, Reply, Service};
use runtime::http_client::OutboundRequest;
use web::http::Request;

/// The protected side of one experiment, for one request of its visitor.
pub(super) struct Api<'a> {
    pub(super) app: &'a App,
    /// The visitor's: the bank's page leads back to where they came from.
    pub(super) request: &'a Request,
    pub(super) experiment: &'a ExperimentId,
}

impl Api<'_> {
    /// How the payment stands; `None` before the first press.
    pub(super) async fn view(&self) -> worker::Result<Option<PaymentView>> {
        let path = format!("/idempotency-keys/{}", self.experiment.order());
        let Some(key) = self.get::<Key>(&path).await? else { return Ok(None) };
        let payment = self.get(&key.resource).await?;
        Ok(Some(PaymentView::of(key, payment)))
    }

    /// One request to pay. `crashes`: the server dies once the bank has charged.
    pub(super) async fn pay(&self, fault: InjectedFault, crashes: bool) -> ClientOutcome {
        let origin = self.request.origin();
        let (lab, amount, order) =
            (self.experiment.to_string(), PRICE_MINOR.to_string(), self.experiment.order());
        let return_url = page::back(&origin, self.experiment, fault);
        let mut fields = vec![
            ("amount", amount.as_str()),
            ("currency", "usd"),
            ("order_id", order.as_str()),
            ("description", "An experiment in the lab"),
            ("provider", "stripe"),
            ("payment_method", fault.card()),
            ("metadata[lab]", lab.as_str()),
            ("metadata[side]", Side::Protected.as_str()),
        ];
        if fault == InjectedFault::BankPage {
            fields.push(("return_url", &return_url));
        }
        if crashes {
            fields.push(("raise_error", "crash_after_call"));
        }
        let body = serde_urlencoded::to_string(fields).unwrap_or_default();
        match self.send("POST", "/payments", Some(&body)).await {
            Ok(reply) => {
                let is_replayed = reply.header("idempotent-replayed").is_some();
                saw(reply.status, is_replayed, &reply.body)
            }
            Err(_) => ClientOutcome::NoAnswer,
        }
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> worker::Result<Option<T>> {
        let mut reply = self.send("GET", path, None).await?;
        if reply.status == 500 {
            // Somebody's crash took the server down: it is there again in a moment.
            Delay::from(PAUSE).await;
            reply = self.send("GET", path, None).await?;
        }
        match reply.status {
            200 => Ok(Some(serde_json::from_str(&reply.body)?)),
            404 => Ok(None),
            status => Err(worker::Error::RustError(format!("the payments Worker answered {status}"))),
        }
    }

    async fn send(&self, method: &str, path: &str, body: Option<&str>) -> worker::Result<Reply> {
        let mut headers = vec![
            ("authorization", format!("Bearer {}", self.app.config.api_token)),
            ("accept", "application/json".to_owned()),
        ];
        if body.is_some() {
            headers.push(("content-type", "application/x-www-form-urlencoded".to_owned()));
            headers.push(("idempotency-key", self.experiment.order()));
        }
        let url = format!("{}{path}", self.request.origin());
        self.app.send(Service::Payments, &OutboundRequest { method, url, headers, body }).await
    }
}
