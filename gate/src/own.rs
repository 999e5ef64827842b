//! The gate's own addresses, below `/.paid-once/`.

use std::rc::Rc;

use runtime::log::log;
use web::http::Request;
use web::url::percent_decode;
use worker::{Headers, Response, Result};

use crate::answer::{self, Given, Problem};
use crate::app::Gate;
use crate::ask::ObjectReply;
use crate::client::ask_answer;
use crate::form_key::FormKey;
use crate::headers::OF_CACHES;
use crate::page::Page;
use crate::say::Say;
use crate::secret::Secret;
use crate::visitor;

/// Answers a request for one of them.
pub(crate) async fn answer(gate: &Gate, request: &Request, own: &str) -> Result<Response> {
    if !matches!(request.method.as_str(), "GET" | "HEAD") {
        return Problem::new(Say::NothingHere).answer(request);
    }
    match own {
        "gate.js" => file("text/javascript; charset=utf-8", &shorter(include_str!("gate.js"))),
        "gate.css" => file("text/css; charset=utf-8", include_str!("gate.css")),
        "key" => key(gate, request),
        "answer" => stored(gate, request).await,
        _ => match own
            .strip_prefix("problems/")
            .and_then(|slug| Say::ALL.iter().find(|say| say.slug() == slug))
        {
            Some(say) => answer::explanation(*say, request),
            None => Problem::new(Say::NothingHere).answer(request),
        },
    }
}

/// A script without its comments and indentation.
fn shorter(script: &str) -> String {
    let is_code = |line: &&str| !line.is_empty() && !line.starts_with("//") && !line.starts_with("/**");
    script.lines().map(str::trim).filter(is_code).collect::<Vec<_>>().join("\n")
}

fn file(content_type: &str, text: &str) -> Result<Response> {
    let headers = Headers::new();
    headers.set("content-type", content_type)?;
    headers.set("cache-control", "public, max-age=300")?;
    headers.set("x-content-type-options", "nosniff")?;
    Ok(Response::from_bytes(text.as_bytes().to_vec())?.with_headers(headers))
}

fn parameter(request: &Request, name: &str) -> Option<String> {
    percent_decode(&request.query_value(name)?.replace('+', " "))
}

/// A key for a form of the page that asks: the address to which it goes stands in the query. No other site's page can read it.
fn key(gate: &Gate, request: &Request) -> Result<Response> {
    let page = Page::new(Rc::clone(&gate.config), request.host.clone());
    let to = parameter(request, "to").unwrap_or_default();
    let (path, query) = to.split_once('?').unwrap_or((&to, ""));
    let key = page.mint("POST", path, query);
    let headers = Headers::new();
    headers.set("cache-control", "private, no-store")?;
    headers.set("content-type", "text/plain; charset=utf-8")?;
    headers.set("cross-origin-resource-policy", "same-origin")?;
    let Some(key) = key else {
        return Ok(Response::empty()?.with_status(204).with_headers(headers));
    };
    headers.append("set-cookie", &visitor::cookie(request)?)?;
    Ok(Response::from_bytes(key.as_str().as_bytes().to_vec())?.with_headers(headers))
}

/// What was answered to the form with this key, for the visitor who has sent it.
async fn stored(gate: &Gate, request: &Request) -> Result<Response> {
    let key = parameter(request, "key").and_then(|key| FormKey::open(&key, &gate.config.signing_keys));
    let to = parameter(request, "to")
        .filter(|to| to.bytes().all(|byte| byte.is_ascii_graphic()))
        .unwrap_or_default();
    let (path, query) = to.split_once('?').unwrap_or((&to, ""));
    let found = gate.config.find(&request.host, "POST", path, query).map(|found| found.route);
    // A link leads here from anywhere: who has no cookie is shown nothing.
    let Some(((key, route), owner)) = key.zip(found).zip(visitor::of(request)) else {
        return Problem::new(Say::NothingHere).answer(request);
    };
    let secret = match route.is_series(owner) {
        true => Secret::of_address(owner, &format!("POST {path}?{query}")),
        false => Secret::new(owner, key.as_str()),
    };
    let (reply, response) = match ask_answer(gate, request, route, &secret).await {
        Ok(asked) => asked,
        Err(error) => {
            log("error", &[("event", "platform".into()), ("error", error.to_string().into())]);
            return Problem::new(Say::Unavailable).answer(request);
        }
    };
    let say = match reply {
        ObjectReply::Answered { .. } => {
            // As the address has answered to which it was sent: what it names it names from there.
            let at = Request { path: path.to_owned(), query: query.to_owned(), ..request.clone() };
            let answer = answer::from_origin(gate, &at, route, response, Given::Seen).await?;
            // What a cache may keep of a form's answer it would give to whoever has this address.
            let headers = answer.headers().clone();
            OF_CACHES.iter().try_for_each(|name| headers.delete(name))?;
            headers.set("cache-control", "private, no-store")?;
            return Ok(answer.with_headers(headers));
        }
        ObjectReply::UnderWay { .. } => Say::UnderWay,
        ObjectReply::Unknown { .. } => Say::Unknown,
        ObjectReply::NeverSent => Say::NeverSent,
        ObjectReply::NotDone => Say::NotDone,
        ObjectReply::Nothing => Say::NothingHere,
        _ => Say::AlreadyDone,
    };
    Problem::new(say).answer(request)
}
