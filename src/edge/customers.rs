//! Customers, by address: `PUT /customers/{email}` needs no key, as the address in the account is one.
//!
//! All requests about an address meet in an object of their own, which finds out what is to be done (`object/execute.rs`).

use std::rc::Rc;

use super::api::{account, fault, invalid_parameters, no_query, unavailable};
use super::app::{App, ObjectRef};
use super::ask;
use super::customer_params::{customer_content, customer_prefix, if_match, normalized, without_weak_mark};
use super::reply;
use messages::account::Account;
use messages::message::{Execute, ExecuteResult, ObjectRequest};
use once::fingerprint::{Canonical, Fingerprint, NoCanonicalForm, Parameters};
use once::id::Owner;
use once::key::KeyHash;
use once::record::Channel;
use payments::engine::Command;
use payments::flows::customer::{etag, path};
use payments::payment::customer::{CustomerContent, CustomerRequest, customer_object_name};
use payments::payment::operation::Operation;
use serde_json::json;
use web::entries::TRANSPORT_FIELDS;
use web::http::{Answer, Request, percent_decode};
use web::key_source;
use web::problem::{Kind, Problem};

/// The address stands for it: what is kept has none.
const PATTERN: &str = "/customers/{email}";

/// Whose customer it is, and where that stands.
struct Place {
    owner: Owner,
    account: Rc<Account>,
    email: String,
    object: ObjectRef,
}

impl Place {
    async fn of(app: &App, request: &Request, encoded: &str) -> Result<Self, Problem> {
        let (owner, account) = account(app, request).await?;
        // What is no text is no address either.
        let email = percent_decode(encoded).unwrap_or_default();
        let email = normalized(&email).map_err(|error| invalid_parameters(vec![error]))?;
        let name = customer_object_name(&owner, account.at_stripe(), &email);
        Ok(Self { owner, account, email, object: ObjectRef::Named(name) })
    }
}

/// `PUT /customers/{email}`
pub(super) async fn put(app: &App, request: &Request, encoded: &str) -> Result<Answer, Problem> {
    let Place { owner, account, email, object } = Place::of(app, request, encoded).await?;
    let body = request.parameters()?;
    no_query(request)?;
    let fault = fault(app, &body)?;
    let if_match = if_match(request)?;
    let content = customer_content(&body.without(&TRANSPORT_FIELDS)).map_err(invalid_parameters)?;
    let id_prefix = customer_prefix(&account).map_err(|error| invalid_parameters(vec![error]))?;
    let resource = path(&email);
    let meaning = meaning(&content)?;
    let number = 0;
    let merchant_account = account.at_stripe().map(str::to_owned);
    let operation = Operation::Customer(Box::new(CustomerRequest {
        email,
        content,
        merchant_account,
        id_prefix,
        if_match,
        number,
    }));
    let command = Command {
        owner,
        // The object gives it another one for each number.
        key_hash: KeyHash(String::new()),
        fingerprint: Fingerprint::of(&request.method, PATTERN, &meaning),
        parameters: meaning,
        operation,
        channel: Channel::Api,
        request_id: request.id.clone(),
        may_start: true,
        by: None,
        trace: None,
    };
    let object = ObjectRef::Id(app.object_id(&object).map_err(unavailable)?);
    let wait_ms = key_source::wait_ms(request, app.config.times.wait_ms);
    let to_run = Execute { command, wait_ms, fault, is_counted: false };
    let result =
        ask::run(app, &object, to_run).await.map_err(|ask::Unreachable| Problem::unreachable(&resource))?;
    if let Some(mut problem) = unfinished(&result) {
        problem.resource = Some(resource);
        return Err(problem);
    }
    Ok(reply::execute_result(result, Channel::Api, request, &resource, app.response_options()))
}

/// Why there is no customer yet, in the words of a request without a key.
fn unfinished(result: &ExecuteResult) -> Option<Problem> {
    let (kind, retry_after_ms, detail) = match result {
        ExecuteResult::InProgress { retry_after_ms } => {
            let detail = "Another request about this customer is still running, and nothing of this one was begun or is its own. Send the \
                          same request again after the time in Retry-After.";
            (Kind::InProgress, *retry_after_ms, detail)
        }
        ExecuteResult::Pending { retry_after_ms, in_doubt: true } => {
            let detail = "The provider has not answered whether it made or changed the customer. We keep asking it. Send the same \
                          request again after the time in Retry-After; it cannot make a second one.";
            (Kind::OutcomeUnknown, *retry_after_ms, detail)
        }
        ExecuteResult::Pending { retry_after_ms, in_doubt: false } => {
            let detail = "The payment provider accepts nothing at the moment. The customer is not made or changed so far; it is tried \
                          again, also without a retry. Send the same request again after the time in Retry-After.";
            (Kind::Unavailable, *retry_after_ms, detail)
        }
        ExecuteResult::Interrupted { .. } => {
            let detail = "The request was interrupted. What was done so far is kept. Send the same request again: it goes on from \
                          there. Without a retry it is completed on its own.";
            (Kind::Interrupted, 1000, detail)
        }
        _ => return None,
    };
    Some(Problem::because(kind, detail).retry_after_ms(retry_after_ms))
}

/// What is asked for, however it was written.
fn meaning(content: &CustomerContent) -> Result<Canonical, NoCanonicalForm> {
    let CustomerContent { name, description, payment_method } = content;
    let all = [("description", description), ("name", name), ("payment_method", payment_method)];
    let given = all.into_iter().filter_map(|(name, value)| Some((name.to_owned(), json!(value.as_ref()?))));
    Parameters::Json(given.collect()).canonical()
}

/// Whether who asks has this revision already ([RFC 9110, 13.1.2](https://www.rfc-editor.org/rfc/rfc9110#section-13.1.2)).
fn is_known(if_none_match: Option<&str>, etag: &str) -> bool {
    let tag = |entry: &str| without_weak_mark(entry.trim()) == etag;
    if_none_match.is_some_and(|list| list.trim() == "*" || list.split(',').any(tag))
}

/// `GET /customers/{email}`
pub(super) async fn show(app: &App, request: &Request, encoded: &str) -> Result<Answer, Problem> {
    let Place { owner, email, object, .. } = Place::of(app, request, encoded).await?;
    let view = ask::show(app, &object, ObjectRequest::Show { owner, key_hash: None, refresh: false }).await?;
    let customer = view.customer.unwrap_or_default();
    let shown = customer.to_json(&email).ok_or_else(|| Problem::new(Kind::NotFound))?;
    let etag = etag(customer.revision);
    let answer = match is_known(request.header("if-none-match"), &etag) {
        true => Answer::empty(304, "not_modified"),
        false => Answer::new(200, "application/json", shown.to_string(), "shown"),
    };
    Ok(answer.with("etag", etag))
}
