//! A simulator without a Worker: the three steps of a request, over the store in memory.

#![allow(dead_code, reason = "no test file uses all of it")]

use std::collections::BTreeMap;

use paid_once_simulator::api::{self, Incoming};
use paid_once_simulator::control::{self, ledger};
use paid_once_simulator::fault::Effect;
use paid_once_simulator::http::{Reply, Request};
use paid_once_simulator::idempotency::InFlight;
use paid_once_simulator::ids::Counted;
use paid_once_simulator::memory::Memory;
use paid_once_simulator::registry::PROVIDERS;
use paid_once_simulator::store::{Kind, Query, Store};
use paid_once_simulator::webhooks::Webhooks;
use serde_json::Value;

#[derive(Default)]
pub struct World {
    pub store: Memory,
    pub ids: Counted,
    pub in_flight: InFlight,
    pub now_ms: i64,
}

impl World {
    /// A form to Stripe.
    pub fn post(&mut self, path: &str, body: &str, key: Option<&str>) -> (Reply, Value) {
        self.answer(path, body.to_owned(), &[("authorization", "Bearer sk_test_1")], key)
    }

    /// What is read at Stripe.
    pub fn get(&mut self, path: &str, query: &str) -> Value {
        let request = Request {
            method: "GET".to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            origin: Some("http://simulator.test".to_owned()),
            headers: [("authorization".to_owned(), "Bearer sk_test_1".to_owned())].into(),
            ..Request::default()
        };
        serde_json::from_str(&self.send(&request).body).unwrap()
    }

    /// JSON to Adyen, below `/payments`.
    pub fn adyen(&mut self, path: &str, body: &Value, key: Option<&str>) -> (Reply, Value) {
        let headers = [("x-api-key", "any"), ("content-type", "application/json")];
        self.answer(&format!("/adyen/checkout/v71/payments{path}"), body.to_string(), &headers, key)
    }

    /// JSON to Resend, or to the provider of text messages.
    pub fn json(&mut self, path: &str, body: &Value, key: Option<&str>) -> (Reply, Value) {
        self.answer(path, body.to_string(), &[("authorization", "Bearer re_any")], key)
    }

    /// Any POST, with headers of one's own.
    pub fn answer(
        &mut self,
        path: &str,
        body: String,
        headers: &[(&str, &str)],
        key: Option<&str>,
    ) -> (Reply, Value) {
        let key = key.map(|key| ("idempotency-key", key));
        let headers = headers.iter().copied().chain(key);
        let request = Request {
            method: "POST".to_owned(),
            path: path.to_owned(),
            body: body.into_bytes(),
            origin: Some("http://simulator.test".to_owned()),
            headers: headers.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
            ..Request::default()
        };
        let reply = self.send(&request);
        let body = serde_json::from_str(&reply.body).unwrap();
        (reply, body)
    }

    /// What the control surface plays, which must not refuse it.
    pub fn control(&mut self, path: &str, body: &Value) -> Value {
        let (status, answer) = self.controlled(path, body);
        assert_eq!(status, 200, "{path}: {answer}");
        answer
    }

    /// What the control surface answers.
    pub fn controlled(&mut self, path: &str, body: &Value) -> (u16, Value) {
        let request = Request {
            method: "POST".to_owned(),
            path: path.to_owned(),
            body: body.to_string().into_bytes(),
            origin: Some("http://simulator.test".to_owned()),
            ..Request::default()
        };
        let webhooks =
            Webhooks { providers: PROVIDERS, destination: None, on: false, secrets: BTreeMap::new() };
        let answered = control::answer(&mut self.store, &mut self.ids, self.now_ms, &webhooks, &request);
        let reply = answered.unwrap_or_else(|reply| *reply);
        (reply.status, serde_json::from_str(&reply.body).unwrap_or(Value::Null))
    }

    /// What happened since the simulator began, oldest first: its type and the whole event.
    pub fn events(&mut self) -> Vec<(String, Value)> {
        let page = self.get("/v1/events", "limit=100");
        let events = page["data"].as_array().unwrap().iter().rev();
        events.map(|event| (event["type"].as_str().unwrap().to_owned(), event.clone())).collect()
    }

    /// What the newest event of a type says was otherwise before.
    pub fn previous(&mut self, event_type: &str) -> Value {
        let events = self.events();
        let newest = events.iter().rev().find(|(name, _)| name == event_type).unwrap();
        newest.1["data"]["previous_attributes"].clone()
    }

    fn send(&mut self, request: &Request) -> Reply {
        let provider = PROVIDERS.of_path(&request.path).unwrap();
        let (id, fault) =
            api::arrive(provider, &mut self.store, &mut self.ids, self.now_ms, request).unwrap();
        let effect = match fault.map(|pending| pending.fault.plan(None).effect) {
            Some(effect @ (Effect::ExecuteThenFail | Effect::FailMidway)) => effect,
            _ => Effect::Execute,
        };
        let incoming = Incoming { providers: PROVIDERS, provider, request, id: &id };
        let admitted = match incoming.admit(&mut self.store, &self.in_flight, self.now_ms) {
            Ok(admitted) => admitted,
            Err(reply) => return *reply,
        };
        let before = self.store.clone();
        incoming.execute(&mut self.store, &mut self.ids, self.now_ms, &admitted, effect).unwrap_or_else(
            |reply| {
                self.store = before;
                *reply
            },
        )
    }

    /// How many objects of a kind there are.
    pub fn count(&self, kind: impl Into<Kind>) -> usize {
        self.store.list(&Query::all(kind)).unwrap().len()
    }

    /// Charges that succeeded, what was taken, and what was given back.
    pub fn totals(&self) -> (i64, i64, i64) {
        let totals = ledger::show(PROVIDERS, &self.store, "").unwrap()["totals"].clone();
        let number = |name: &str| totals[name].as_i64().unwrap();
        (number("succeeded_charges"), number("amount_captured"), number("amount_refunded"))
    }
}
