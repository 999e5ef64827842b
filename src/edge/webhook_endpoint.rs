//! The account's endpoint for outgoing webhooks: `PUT` needs no key, as each account has one endpoint, and to send the same again changes nothing.

use serde_json::json;

use super::api::{account, invalid_parameters, no_query, unavailable, unreadable};
use super::app::App;
use super::ask::not_known;
use super::endpoint_url::endpoint_url;
use super::fields::Fields;
use super::payment_params::no_parameters;
use super::reply;
use super::route::OneDelivery;
use crate::deliveries::endpoint::{self, Endpoint, Row};
use crate::deliveries::send::{Message, host, send};
use crate::deliveries::untaken::{Messages, UntakenQuery};
use crate::deliveries::{are_on, known};
use crate::readmodel::list::{LIMIT_DEFAULT, LIMIT_MAX};
use once::fingerprint::{FieldError, Parameters};
use once::id::Owner;
use payments::timestamp;
use runtime::random;
use web::http::{Answer, Request};
use web::problem::{Kind, Problem};
use web::query;
use web::route::Parameter;

/// What a client may send by itself, and means nothing here.
const KEY: [&str; 1] = ["idempotency_key"];
/// The type of the message of a test.
pub const TEST: &str = "webhook_endpoint.test";

/// What is told where D1 did not say whether it was written.
const NOT_KNOWN: &str = "It is not known whether the endpoint was changed. Send the same request again after the time in Retry-After.";

/// What is asked for.
#[derive(Debug, PartialEq, Eq)]
pub struct EndpointRequest {
    /// Where the shop is told.
    pub url: String,
    /// Which version of the secret is to hold.
    pub secret_version: Option<u32>,
}

/// Reads the body of `PUT /webhook-endpoint`.
pub fn endpoint_request(
    parameters: &Parameters,
    demo: bool,
    own_host: &str,
) -> Result<EndpointRequest, Vec<FieldError>> {
    let mut fields = Fields::of(parameters);
    let url = fields.required("url", |text| endpoint_url(text, demo, own_host));
    let secret_version = fields.optional("secret_version", |text| {
        text.parse()
            .ok()
            .filter(|version| *version > 0)
            .ok_or_else(|| "must be a whole number from 1".to_owned())
    });
    fields.unknown(&["url", "secret_version"], &[]);
    let request = EndpointRequest { url: url.unwrap_or_default(), secret_version };
    fields.end(request).map_err(|refused| refused.errors)
}

/// Whose endpoint it is.
async fn owner(app: &App, request: &Request) -> Result<String, Problem> {
    let (owner, _) = account(app, request).await?;
    if !are_on(&app.env) {
        let detail =
            "Outgoing webhooks are off here: the queue DELIVERIES is not bound. Nothing was changed.";
        return Err(Problem::because(Kind::Misconfigured, detail));
    }
    match owner {
        Owner::Account(id) => Ok(id),
        Owner::Session(_) => Err(Problem::new(Kind::Unauthorized)),
    }
}

/// Each change and each test counts against a limit of their own, as high as that of operations.
async fn limited(app: &App, account: &str) -> Result<(), Problem> {
    match app.has_room("RATE_LIMITER", format!("webhook endpoint {account}")).await {
        true => Ok(()),
        false => Err(web::reply::rate_limited()),
    }
}

fn shown(app: &App, request: &Request, account: &str, endpoint: &Endpoint, status: u16) -> Answer {
    let body = endpoint.to_json(&app.config.signing_keys, account, request.now_ms).to_string();
    let outcome = if status == 201 { "created" } else { "shown" };
    Answer::new(status, "application/json", body, outcome)
}

async fn there(app: &App, account: &str) -> Result<Endpoint, Problem> {
    let row = endpoint::row(&app.env, account).await.map_err(unreadable)?;
    row.and_then(Row::endpoint).ok_or_else(|| Problem::new(Kind::NotFound))
}

/// `GET /webhook-endpoint`
pub(super) async fn show(app: &App, request: &Request) -> Result<Answer, Problem> {
    let account = owner(app, request).await?;
    let endpoint = there(app, &account).await?;
    Ok(shown(app, request, &account, &endpoint, 200))
}

/// `PUT /webhook-endpoint`
pub(super) async fn put(app: &App, request: &Request) -> Result<Answer, Problem> {
    let account = owner(app, request).await?;
    let body = request.parameters()?.without(&KEY);
    no_query(request)?;
    let EndpointRequest { url, secret_version } =
        endpoint_request(&body, app.config.demo, &request.host).map_err(invalid_parameters)?;
    limited(app, &account).await?;
    let written = endpoint::put(&app.env, &account, &url, secret_version, request.now_ms).await;
    known::forget(&account);
    let Some(row) = written.map_err(|error| not_known(&error, NOT_KNOWN))? else {
        return Err(other_version(app, &account).await?);
    };
    // What was written has an address.
    let endpoint = row.endpoint().ok_or_else(|| Problem::new(Kind::NotFound))?;
    let status = if endpoint.is_made_at(request.now_ms) { 201 } else { 200 };
    Ok(shown(app, request, &account, &endpoint, status))
}

/// The version that was asked for is neither the one that there is nor the next.
async fn other_version(app: &App, account: &str) -> Result<Problem, Problem> {
    let row = endpoint::row(&app.env, account).await.map_err(unreadable)?;
    let message = match row {
        Some(row) => match (row.secret_version, row.endpoint()) {
            (version, Some(_)) => {
                format!("is {version} now: send {version}, or {} for a new secret", version.saturating_add(1))
            }
            (version, None) => format!("is {} for an endpoint that is made anew", version.saturating_add(1)),
        },
        None => "is 1 for an endpoint that is made".to_owned(),
    };
    Ok(invalid_parameters(vec![FieldError { field: "secret_version".to_owned(), message }]))
}

/// `DELETE /webhook-endpoint`
pub(super) async fn remove(app: &App, request: &Request) -> Result<Answer, Problem> {
    let account = owner(app, request).await?;
    let removed = endpoint::remove(&app.env, &account, request.now_ms).await;
    known::forget(&account);
    removed.map_err(|error| not_known(&error, NOT_KNOWN))?;
    Ok(Answer::empty(204, "removed"))
}

/// Of a request that takes no parameters, neither in its body nor in its address.
fn says_nothing(request: &Request) -> Result<(), Problem> {
    let body = request.parameters()?.without(&KEY);
    no_query(request)?;
    no_parameters(&body).map_err(|refused| invalid_parameters(refused.errors))
}

/// `POST /webhook-endpoint/test`: sends a message that is about nothing, and says what was answered.
pub(super) async fn test(app: &App, request: &Request) -> Result<Answer, Problem> {
    let account = owner(app, request).await?;
    says_nothing(request)?;
    let endpoint = there(app, &account).await?;
    limited(app, &account).await?;
    let id = format!("test_{}", random::uuid().map_err(unavailable)?.simple());
    let body = json!({
        "type": TEST, "timestamp": timestamp(request.now_ms),
        "data": { "object": "webhook_endpoint", "url": endpoint.url },
    })
    .to_string();
    let message = Message { account: &account, id: &id, body: &body };
    let sent = send(&app.env, &app.config, &endpoint, message).await;
    let (status, error) = match sent {
        Ok(status) => (Some(status), None),
        Err(error) => (None, Some(format!("{}: {error}", host(&endpoint.url)))),
    };
    let told = json!({
        "object": "webhook_test", "webhook_id": id, "delivered": matches!(status, Some(200..300)),
        "response_status": status, "error": error,
    });
    Ok(Answer::new(200, "application/json", told.to_string(), "tested"))
}

/// `GET /webhook-endpoint/deliveries`: what the endpoint has not taken, and is not sent any more; with `state=all` also what is still tried.
pub(super) async fn deliveries(app: &App, request: &Request) -> Result<Answer, Problem> {
    let account = owner(app, request).await?;
    let query = deliveries_query(&request.query).map_err(invalid_parameters)?;
    let endpoint = there(app, &account).await?;
    limited(app, &account).await?;
    let messages = Messages::of(&app.env, &account, endpoint.told_since_ms());
    let Some((shown, has_more)) = messages.list(&query).await.map_err(unreadable)? else {
        let message = "is not in this list any more: begin anew".to_owned();
        return Err(invalid_parameters(vec![FieldError { field: "starting_after".to_owned(), message }]));
    };
    Ok(reply::list("/webhook-endpoint/deliveries", &shown, has_more))
}

/// Reads the query of this list.
pub fn deliveries_query(query: &str) -> Result<UntakenQuery, Vec<FieldError>> {
    let mut list = UntakenQuery { limit: LIMIT_DEFAULT, starting_after: None, all: false };
    query::read(query, |name, value| {
        match (name, value) {
            ("limit", limit) => list.limit = query::limit(limit, LIMIT_MAX)?,
            ("starting_after", id) => list.starting_after = Some(id.to_owned()),
            ("state", "dead" | "all") => list.all = value == "all",
            ("state", _) => return Err("must be one of dead, all".to_owned()),
            _ => {
                return Err(
                    "is not a parameter of this list: it takes limit, starting_after and state".to_owned()
                );
            }
        }
        Ok(())
    })?;
    Ok(list)
}

/// `POST /webhook-endpoint/deliveries/{webhook_id}/requeue`
pub(super) async fn requeue(
    app: &App,
    request: &Request,
    webhook_id: &Parameter<'_, OneDelivery>,
) -> Result<Answer, Problem> {
    let account = owner(app, request).await?;
    says_nothing(request)?;
    let endpoint = there(app, &account).await?;
    limited(app, &account).await?;
    let messages = Messages::of(&app.env, &account, endpoint.told_since_ms());
    let shown = messages.requeue(webhook_id, request.now_ms).await.map_err(unavailable)?;
    let shown = shown.ok_or_else(|| Problem::new(Kind::NotFound))?;
    Ok(Answer::new(200, "application/json", shown.to_string(), "requeued"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_deliveries_is_read_and_what_is_wrong_is_named() {
        let read = |query: &str| deliveries_query(query);
        let default = UntakenQuery { limit: LIMIT_DEFAULT, starting_after: None, all: false };
        assert_eq!(read(""), Ok(default.clone()));
        assert_eq!(read("state=dead&limit=3"), Ok(UntakenQuery { limit: 3, ..default.clone() }));
        let after = Some("pay_1_event_2".to_owned());
        let expected = UntakenQuery { starting_after: after, all: true, ..default };
        assert_eq!(read("starting_after=pay_1_event_2&state=all"), Ok(expected));
        let wrong = read("limit=0&state=tried&page=2&limit=3").unwrap_err();
        let named: Vec<&str> = wrong.iter().map(|error| error.field.as_str()).collect();
        assert_eq!(named, ["limit", "state", "page", "limit"]);
    }
}
