//! The control surface under `/_sim/`, and the page at `/`: for tests and people, without authentication. It is why the simulator must only
//! ever listen on the local machine.

pub mod ledger;

use serde_json::{Value, json};

use crate::failure::{Failure, Outcome};
use crate::http::{Reply, Request};
use crate::ids::Ids;
use crate::mailbox;
use crate::pages;
use crate::provider::{Action, Call, Providers, tick};
use crate::store::{LoggedRequest, REQUESTS_KEPT, Store};
use crate::three_d_secure::Decision;
use crate::webhooks::Webhooks;
use crate::{clock, faults};

/// Answers everything that is not the API. `Err` is a reply as well, with all writes undone.
pub fn answer(
    store: &mut dyn Store,
    ids: &mut dyn Ids,
    wall_ms: i64,
    webhooks: &Webhooks,
    request: &Request,
) -> Result<Reply, Box<Reply>> {
    route(store, ids, wall_ms, webhooks, request)
        .map_err(|Failure { status, message }| Box::new(problem(status, &message)))
}

fn route(
    store: &mut dyn Store,
    ids: &mut dyn Ids,
    wall_ms: i64,
    webhooks: &Webhooks,
    request: &Request,
) -> Outcome<Reply> {
    let providers = webhooks.providers;
    let offset_ms = store.clock_offset_ms()?;
    let now_ms = wall_ms + offset_ms;
    let segments: Vec<&str> = request.path.trim_start_matches('/').split('/').collect();
    match (request.method.as_str(), segments.as_slice()) {
        ("GET", [""]) => {
            tick(store, ids, providers, now_ms)?;
            let shown = ledger::show(providers, store, "")?;
            Ok(Reply::html(200, ledger::page(providers, &shown, offset_ms)))
        }
        ("GET", ["_sim", "ledger"]) => {
            tick(store, ids, providers, now_ms)?;
            Ok(Reply::json(200, &ledger::show(providers, store, &request.query)?))
        }
        ("GET", ["_sim", "mailbox"]) => {
            let sections = providers.iter().filter_map(|provider| provider.mailbox(store).transpose());
            Ok(Reply::html(200, mailbox::page(&sections.collect::<Outcome<Vec<_>>>()?)))
        }
        ("GET", ["_sim", "requests"]) => requests(providers, store, request),
        ("GET", ["_sim", "faults"]) => Ok(faults::show(store)?),
        ("DELETE", ["_sim", "faults"]) => Ok(faults::clear(store)?),
        ("POST", ["_sim", "faults"]) => match body(request) {
            Ok(body) => Ok(faults::arm(store, &body)?),
            Err(reply) => Ok(reply),
        },
        ("GET", ["_sim", "clock"]) => Ok(clock::show(now_ms, offset_ms)),
        ("POST", ["_sim", "clock"]) => match body(request) {
            Ok(body) => Ok(clock::advance(store, wall_ms, &body)?),
            Err(reply) => Ok(reply),
        },
        ("GET", ["_sim", "webhooks"]) => webhooks.show(store, request.query_value("event_id")),
        ("POST", ["_sim", "webhooks"]) => match body(request) {
            Ok(body) => webhooks.set(store, &body),
            Err(reply) => Ok(reply),
        },
        ("POST", ["_sim", "reset"]) => {
            store.clear()?;
            Ok(Reply::json(200, &json!({ "reset": true })))
        }
        (method, ["_sim", rest @ ..]) => {
            let mut call = Call::new(store, ids, providers, now_ms, request, "req_dashboard", None);
            match (method, rest) {
                ("GET", ["3ds", id]) => three_d_secure(&mut call, id, Decision::Look),
                ("POST", ["3ds", id, "accept"]) => three_d_secure(&mut call, id, Decision::Accept),
                ("POST", ["3ds", id, "fail"]) => three_d_secure(&mut call, id, Decision::Fail),
                ("GET", path) => view(&mut call, path),
                ("POST", path) => act(&mut call, path),
                _ => Ok(nothing_here()),
            }
        }
        _ => Ok(nothing_here()),
    }
}

fn nothing_here() -> Reply {
    problem(
        404,
        "There is nothing here. Stripe's API is under /v1/, Adyen's under /adyen/, Resend's under /resend/, text messages under /sms/, the control surface under \
         /_sim/.",
    )
}

/// What can be read of one of the providers.
fn view(call: &mut Call, path: &[&str]) -> Outcome<Reply> {
    for provider in call.providers.iter() {
        if let Some(reply) = provider.view(call, path)? {
            return Ok(reply);
        }
    }
    Ok(nothing_here())
}

/// Plays what somebody does at a provider itself.
fn act(call: &mut Call, path: &[&str]) -> Outcome<Reply> {
    let actions: Vec<Action> = call.providers.iter().filter_map(|provider| provider.action(path)).collect();
    if actions.is_empty() {
        return Ok(nothing_here());
    }
    let body = match body(call.request) {
        Ok(body) => body,
        Err(_) if call.request.body.is_empty() => json!({}),
        Err(reply) => return Ok(reply),
    };
    call.settle()?;
    for action in actions {
        if let Some(reply) = action(call, &body)? {
            return Ok(reply);
        }
    }
    Ok(nothing_here())
}

fn three_d_secure(call: &mut Call, id: &str, decision: Decision) -> Outcome<Reply> {
    for provider in call.providers.iter() {
        if let Some(reply) = provider.three_d_secure(call, id, decision)? {
            return Ok(reply);
        }
    }
    call.as_request(String::new(), "req_3ds", None).settle()?;
    Ok(Reply::html(404, pages::message("There is no such payment.")))
}

fn requests(providers: Providers, store: &dyn Store, request: &Request) -> Outcome<Reply> {
    let limit = match request.query_value("limit").map(|text| text.parse::<i64>()) {
        None => REQUESTS_KEPT,
        Some(Ok(limit)) if (1..=REQUESTS_KEPT).contains(&limit) => limit,
        Some(_) => return Ok(problem(400, "limit must be 1 to 1000")),
    };
    let key = request.query_value("idempotency_key");
    let requests = store.requests(key.as_deref(), limit)?;
    let requests = requests
        .iter()
        .map(|request| logged(providers, request))
        .collect::<std::result::Result<Vec<Value>, serde_json::Error>>()?;
    Ok(Reply::json(200, &json!({ "requests": requests })))
}

/// A line of the log, with the provider that its path tells.
fn logged(providers: Providers, request: &LoggedRequest) -> serde_json::Result<Value> {
    let mut line = serde_json::to_value(request)?;
    if let Some(fields) = line.as_object_mut() {
        fields.insert(
            "provider".into(),
            json!(providers.of_path(&request.path).map(|provider| provider.name())),
        );
    }
    Ok(line)
}

fn body(request: &Request) -> Result<Value, Reply> {
    serde_json::from_slice(&request.body)
        .map_err(|error| problem(400, &format!("the body must be JSON: {error}")))
}

fn problem(status: u16, message: &str) -> Reply {
    Reply::json(status, &json!({ "error": message }))
}
