//! The API's document, [OpenAPI 3.1](https://spec.openapis.org/oas/v3.1.1): made when the Worker is built, from the table of routes and
//! from the limits, words and problems that the code itself uses. What the table does not know of a route is in `operations.rs`; `page.rs`
//! makes the page for people of it.

mod answers;
mod customers;
mod examples;
mod markdown;
mod operation;
pub(super) mod operations;
mod page;
mod parameters;
mod paste;
mod problems;
mod registry;
mod schema;
mod schemas;
mod webhook_endpoint;

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::route::Who;
use once::key::KEY_MAX_LEN;
pub use operation::Operation;
pub use page::page;
pub use parameters::Described;
use parameters::KEY;
use schema::text;
use web::key_source::WAIT_MAX_MS;
use web::problem::Kind;
use web::route::Method;

const ABOUT: &str = "Make a key for each thing that is to happen once, send it in `Idempotency-Key`, and send **the same request with the same key** again until the answer is neither 408, nor 409 `request-in-progress`, nor 429, nor 5xx. However often you do that: it happens at most once, and every complete answer is the first one, byte for byte.

- **Bodies** are JSON or `application/x-www-form-urlencoded`, at most 65,536 bytes. A parameter that an operation does not know is refused, and so is one in the address. What decides how much is moved, and from where to where, is left out or has a value: `null` and an empty text are refused.
- **Answers** may get more members in a later release, and more words where one of several stands: ignore those that you do not know.
- **Problems** are `application/problem+json` ([RFC 9457](https://www.rfc-editor.org/rfc/rfc9457)); who sends no credentials and prefers HTML gets a page. The `type` of each is a page that explains it.
- **Unknown outcomes** are no failures: 503 `outcome-unknown` means that the provider is still being asked. Send the same request again.
- **HEAD** works wherever GET does; **OPTIONS** is 204 with `Allow`, and answers the preflight of the origins that are allowed.
- **Credentials** are taken over https only: plain http is refused (403), or without credentials sent on (308), but on this machine.
- In the demo the token of an account is its address: `user@example.com`, or `user-bad-source@example.com`, whose card is declined.";

const TAGS: [(&str, &str); 8] = [
    ("Payments", "Take money once, or reserve it and take it later."),
    ("Refunds", "Give it back, never more than was taken."),
    ("Customers", "Make the provider's customer of a person once, by their address."),
    ("Webhooks", "Be told of payments at an address of your own."),
    ("Idempotency keys", "Where a key stands, and what happened under it."),
    ("Checkout", "A page on which a person pays an order, once."),
    ("Service", "For whoever runs it."),
    ("Documentation", "For people who read."),
];

/// Links from an answer to other operations: name, operation, where its parameter `id` stands in the answer, and what for.
const LINKS: [(&str, &str, &str, &str); 6] = [
    ("ShowPayment", "showPayment", "/id", "The payment as it stands."),
    ("CapturePayment", "capturePayment", "/id", "Take what was reserved."),
    ("VoidPayment", "voidPayment", "/id", "Give up what was reserved."),
    ("RefundPayment", "refundPayment", "/id", "Give back what was taken."),
    ("ListRefunds", "listRefunds", "/id", "What was given back."),
    ("ListRefundsOfPayment", "listRefunds", "/payment", "All refunds of the payment."),
];

/// What is said of a parameter in a path: see [`Described`].
type Describe = fn() -> Option<Value>;

/// A route, as far as the document is concerned.
#[derive(Clone, Copy, Debug)]
pub struct Documented {
    /// What is asked for.
    pub method: Method,
    /// The path, with `{name}` for each parameter.
    pub pattern: &'static str,
    /// Who may.
    pub who: Who,
    /// The parameters in the path, and what is said of them.
    pub parameters: &'static [(&'static str, Describe)],
    /// What it is for; nothing where it is for browsers alone.
    pub operation: Option<fn() -> Operation>,
}

/// The document of these routes.
pub fn document(routes: &[Documented]) -> Value {
    let mut paths: Map<String, Value> = Map::new();
    let mut responses = BTreeMap::new();
    for route in routes {
        let Some(operation) = route.operation.map(|operation| operation()) else { continue };
        responses.extend(operation.refusals().iter().map(|refusal| (refusal.name, refusal.to_json())));
        let path = paths.entry(route.pattern).or_insert_with(|| json!({}));
        if let Value::Object(path) = path {
            let method = route.method.as_str().to_ascii_lowercase();
            path.insert(method, operation.to_json(security(route.who), in_path(route)));
        }
    }
    let mut schemas: Map<String, Value> = schemas::all()
        .into_iter()
        .chain(registry::schemas())
        .chain(customers::schemas())
        .chain(webhook_endpoint::schemas())
        .map(|(name, schema)| (name.to_owned(), schema.into()))
        .collect();
    schemas.extend(Kind::ALL.iter().map(|kind| (problems::name(*kind), problems::schema(*kind).into())));
    let examples: Map<String, Value> =
        Kind::ALL.iter().map(|kind| (problems::example_name(*kind), problems::example(*kind))).collect();
    json!({
        "openapi": "3.1.1",
        "info": {
            "title": "Paid Once", "version": env!("CARGO_PKG_VERSION"),
            "summary": "A payments edge that never charges twice.", "description": ABOUT,
            "license": { "name": "MIT or Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        "tags": TAGS.map(|(name, about)| json!({ "name": name, "description": about })),
        "paths": paths,
        "webhooks": webhook_endpoint::webhooks(),
        "components": {
            "securitySchemes": {
                "account": {
                    "type": "http", "scheme": "bearer",
                    "description": "The token of an API account. In the demo: `user@example.com`.",
                },
                "admin": {
                    "type": "http", "scheme": "bearer",
                    "description": "The operator's secret, the desk's setting `ADMIN_TOKEN`; for the counts `METRICS_TOKEN` is good, too. The desk answers these requests, on its own host.",
                },
            },
            "parameters": parameters(),
            "headers": answers::headers(),
            "responses": responses,
            "links": links(),
            "schemas": schemas,
            "examples": examples,
        },
    })
}

/// What shows that somebody may.
fn security(who: Who) -> Value {
    match who {
        Who::Account => json!([{ "account": [] }]),
        Who::Operator => json!([{ "admin": [] }]),
        Who::Anyone | Who::LinkHolder | Who::Stripe | Who::OwnStripe | Who::Adyen | Who::OwnAdyen => {
            json!([])
        }
    }
}

/// The parameters in a route's path.
fn in_path(route: &Documented) -> Vec<Value> {
    let described = route.parameters.iter().filter_map(|(name, described)| {
        let mut described = described()?;
        if let Value::Object(members) = &mut described {
            members.extend([
                ("name".to_owned(), (*name).into()),
                ("in".to_owned(), "path".into()),
                ("required".to_owned(), true.into()),
            ]);
        }
        Some(described)
    });
    described.collect()
}

fn parameters() -> Value {
    let wait = WAIT_MAX_MS / 1000;
    let mut parameters = json!({
        "IdempotencyKey": {
            "name": "Idempotency-Key", "in": "header", "required": false,
            "description": format!(
                "One key for each thing that is to happen once: 1 to {KEY_MAX_LEN} visible ASCII characters, bare or in quotes \
                 as an RFC 8941 String, whose parameters are ignored. Send the same key with every retry. A number that a \
                 browser may have made by itself is no key. Without it 400 `idempotency-key-missing`, but where the \
                 operation has a natural key of its own.",
            ),
            "schema": text().with("pattern", format!(
                r#"^([!#-~][!-~]{{0,{}}}|"[!#-\[\]-~]{{1,{KEY_MAX_LEN}}}"(;[a-z][a-z0-9]{{0,9}}(=[a-z0-9]{{1,9}})?){{0,2}})$"#,
                KEY_MAX_LEN - 1,
            )),
            "example": KEY,
        },
        "Prefer": {
            "name": "Prefer", "in": "header", "required": false,
            "description": format!(
                "`wait=N`: while the first request with this key still runs, wait N seconds (0 to {wait}, by default 10) for \
                 its result; 0 refuses at once.",
            ),
            "schema": text().with("pattern", "^wait=[0-9]{1,2}$"),
            "example": "wait=10",
        },
    });
    if let Value::Object(parameters) = &mut parameters {
        let of_webhooks = webhook_endpoint::parameters();
        parameters.extend(of_webhooks.map(|(name, parameter)| (name.to_owned(), parameter)));
    }
    parameters
}

fn links() -> Value {
    let link = |(name, operation, pointer, about): (&str, &str, &str, &str)| {
        let parameters = json!({ "id": format!("$response.body#{pointer}") });
        let link = json!({ "operationId": operation, "parameters": parameters, "description": about });
        (name.to_owned(), link)
    };
    Value::Object(LINKS.into_iter().map(link).collect())
}
