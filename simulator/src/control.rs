//! The control surface under `/_sim/`, and the page at `/`: for tests and people, without authentication. It is why the simulator must only
//! ever listen on the local machine.

use serde_json::{Value, json};

use crate::adyen::{self, happenings};
use crate::auth::DEFAULT_ACCOUNT;
use crate::call::Call;
use crate::errors::{Failure, Outcome};
use crate::http::{Reply, Request};
use crate::ids::Ids;
use crate::provider::Provider;
use crate::store::{Kind, LoggedRequest, REQUESTS_KEPT, Store};
use crate::three_d_secure::{self, Decision};
use crate::webhooks::{self, Settings};
use crate::{clock, dashboard, faults, ledger, mailbox, pages, refunds};

/// Answers everything that is not the API. `Err` is a reply as well, with all writes undone.
pub fn answer(
    store: &mut dyn Store,
    ids: &mut dyn Ids,
    wall_ms: i64,
    settings: &Settings,
    request: &Request,
) -> Result<Reply, Box<Reply>> {
    route(store, ids, wall_ms, settings, request).map_err(|failure| {
        let status = match &failure {
            Failure::Refused(error) | Failure::Outcome(error) => error.status,
            Failure::Broken(_) => 500,
        };
        Box::new(problem(status, &failure.into_message()))
    })
}

fn route(
    store: &mut dyn Store,
    ids: &mut dyn Ids,
    wall_ms: i64,
    settings: &Settings,
    request: &Request,
) -> Outcome<Reply> {
    let offset_ms = store.clock_offset_ms()?;
    let now_ms = wall_ms + offset_ms;
    let segments: Vec<&str> = request.path.trim_start_matches('/').split('/').collect();
    match (request.method.as_str(), segments.as_slice()) {
        ("GET", [""]) => {
            clock::tick(store, ids, now_ms)?;
            Ok(Reply::html(200, pages::ledger(&ledger::show(store, "")?, offset_ms)))
        }
        ("GET", ["_sim", "ledger"]) => {
            clock::tick(store, ids, now_ms)?;
            Ok(Reply::json(200, &ledger::show(store, &request.query)?))
        }
        ("GET", ["_sim", "adyen", "notifications"]) => {
            clock::tick(store, ids, now_ms)?;
            let payment = request.query_value("payment");
            Ok(Reply::json(200, &adyen::notifications::show(store, payment)?))
        }
        ("GET", ["_sim", "mailbox"]) => mailbox::page(store),
        ("GET", ["_sim", "mailbox.json"]) => mailbox::emails(store),
        ("GET", ["_sim", "mailbox", id]) => mailbox::email(store, id),
        ("GET", ["_sim", "messages"]) => mailbox::messages(store, request.query_value("reference")),
        ("GET", ["_sim", "requests"]) => requests(store, request),
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
        ("GET", ["_sim", "webhooks"]) => webhooks::show(store, settings, request.query_value("event_id")),
        ("POST", ["_sim", "webhooks"]) => match body(request) {
            Ok(body) => webhooks::set(store, settings, &body),
            Err(reply) => Ok(reply),
        },
        ("POST", ["_sim", "payments"]) => at_the_provider(store, ids, now_ms, request, dashboard::pay),
        ("POST", ["_sim", "payments", id, happening]) => {
            let play = match *happening {
                "refunds" => dashboard::refund,
                "captures" => dashboard::capture,
                "cancel" => dashboard::cancel,
                "expire" => dashboard::expire,
                "disputes" => dashboard::dispute,
                _ => return Ok(nothing_here()),
            };
            at_the_provider(store, ids, now_ms, request, |call, body| play(call, id, body))
        }
        ("POST", ["_sim", "refunds", id, "ask"]) => {
            at_the_provider(store, ids, now_ms, request, |call, _| refunds::ask_customer(call, id))
        }
        ("POST", ["_sim", "adyen", "payments", psp, happening]) => {
            at_the_provider(store, ids, now_ms, request, |call, body| {
                // Adyen's rows are of no account at Stripe.
                call.account.clear();
                happenings::play(call, psp, happening, body)
            })
        }
        ("POST", ["_sim", "adyen", "reports"]) => {
            at_the_provider(store, ids, now_ms, request, |call, body| {
                call.account.clear();
                adyen::reports::close(call, body)
            })
        }
        ("POST", ["_sim", "reset"]) => {
            store.clear()?;
            Ok(Reply::json(200, &json!({ "reset": true })))
        }
        ("GET", ["_sim", "3ds", id]) => decide(store, ids, now_ms, request, id, Decision::Look),
        ("POST", ["_sim", "3ds", id, "accept"]) => decide(store, ids, now_ms, request, id, Decision::Accept),
        ("POST", ["_sim", "3ds", id, "fail"]) => decide(store, ids, now_ms, request, id, Decision::Fail),
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

/// Runs what somebody does at the provider itself. A decline is a result as well: its charge stays.
fn at_the_provider(
    store: &mut dyn Store,
    ids: &mut dyn Ids,
    now_ms: i64,
    request: &Request,
    run: impl FnOnce(&mut Call, &Value) -> Outcome<Value>,
) -> Outcome<Reply> {
    let body = match body(request) {
        Ok(body) => body,
        Err(_) if request.body.is_empty() => json!({}),
        Err(reply) => return Ok(reply),
    };
    let mut call = call(store, ids, now_ms, DEFAULT_ACCOUNT, request, "req_dashboard", None);
    clock::settle(&mut call)?;
    match run(&mut call, &body) {
        Ok(value) => Ok(Reply::json(200, &value)),
        Err(Failure::Outcome(error)) => Ok(problem(error.status, &error.message)),
        Err(failure) => Err(failure),
    }
}

fn decide(
    store: &mut dyn Store,
    ids: &mut dyn Ids,
    now_ms: i64,
    request: &Request,
    id: &str,
    decision: Decision,
) -> Outcome<Reply> {
    // The charge after 3-D Secure belongs to the request that asked for it.
    let row = match store.find(Kind::PaymentIntent, id)? {
        None => store.find(Kind::AdyenPayment, id)?,
        found => found,
    };
    let request_id = row.as_ref().map_or("req_3ds", |row| row.request_id.as_str());
    let key = row.as_ref().and_then(|row| row.idempotency_key.as_deref());
    let account = row.as_ref().map_or("", |row| row.account.as_str());
    three_d_secure::answer(&mut call(store, ids, now_ms, account, request, request_id, key), id, decision)
}

fn call<'a>(
    store: &'a mut dyn Store,
    ids: &'a mut dyn Ids,
    now_ms: i64,
    account: &str,
    request: &'a Request,
    request_id: &'a str,
    idempotency_key: Option<&'a str>,
) -> Call<'a> {
    let api_version = crate::stripe::DEFAULT_API_VERSION;
    let (account, origin) = (account.to_owned(), request.origin.as_deref());
    Call { store, ids, now_ms, account, origin, api_version, request_id, idempotency_key }
}

fn requests(store: &dyn Store, request: &Request) -> Outcome<Reply> {
    let limit = match request.query_value("limit").map(|text| text.parse::<i64>()) {
        None => REQUESTS_KEPT,
        Some(Ok(limit)) if (1..=REQUESTS_KEPT).contains(&limit) => limit,
        Some(_) => return Ok(problem(400, "limit must be 1 to 1000")),
    };
    let key = request.query_value("idempotency_key");
    let requests = store.requests(key.as_deref(), limit)?;
    let requests =
        requests.iter().map(logged).collect::<std::result::Result<Vec<Value>, serde_json::Error>>()?;
    Ok(Reply::json(200, &json!({ "requests": requests })))
}

/// A line of the log, with the provider that its path tells.
fn logged(request: &LoggedRequest) -> serde_json::Result<Value> {
    let mut line = serde_json::to_value(request)?;
    if let Some(fields) = line.as_object_mut() {
        fields.insert("provider".into(), json!(Provider::of_path(&request.path)));
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
