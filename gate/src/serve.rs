//! One request, from the visitor to the origin and back.

use once::key::IdempotencyKey;
use runtime::log::log;
use runtime::{now_ms, serve};
use serde_json::Value;
use web::http::Request;
use web::key_source::is_browsers_own;
use worker::wasm_bindgen::JsValue;
use worker::{Env, Fetch, Response, Result};

use crate::answer::{self, Given, Problem};
use crate::app::Gate;
use crate::ask::{Form, ObjectReply};
use crate::body::fingerprint::{Ignored, Read, fingerprint, name_of_edited};
use crate::body::{Encoding, without_key};
use crate::client::{Body, ask, at_origin, headers_to, request_to};
use crate::config::{Edited, Found, Kind, Missing, Route};
use crate::cookies;
use crate::domain::Place;
use crate::form_key::FormKey;
use crate::own;
use crate::passed_on;
use crate::say::Say;
use crate::secret::Secret;
use crate::stream::{beginning, drain};
use crate::visitor;

/// Answers a request. An error is an answer too.
pub(crate) async fn handle(incoming: worker::Request, env: Env) -> Result<Response> {
    let request = serve::read(incoming.inner())?;
    let gate = match Gate::open(env) {
        Ok(gate) => gate,
        Err(what) => {
            log("error", &[("event", "misconfigured".into()), ("error", what.into())]);
            return Problem::new(Say::Misconfigured).answer(&request);
        }
    };
    if passed_on::is_marked(&request, &gate.config.signing_keys) {
        let incoming = incoming.inner();
        let (headers, body) = (passed_on::headers(&request)?, incoming.body().map(Into::into));
        return Fetch::Request(request_to(&incoming.url(), &request.method, &headers, body)?).send().await;
    }
    if let Some(own) = request.path.strip_prefix("/.paid-once/") {
        return own::answer(&gate, &request, own).await;
    }
    let found = gate.config.find(&request.host, &request.method, &request.path, &request.query);
    match found {
        Some(found) => gated(&gate, &request, incoming, found).await,
        None => match gate.config.of_host(&request.host).next() {
            Some(route) => unlisted(&gate, &request, incoming, route).await,
            None => {
                // A host that is misspelt in the settings is seen by nobody else.
                log("warn", &[("event", "no_route".into()), ("host", request.host.as_str().into())]);
                Problem::new(Say::NothingHere).answer(&request)
            }
        },
    }
}

/// What is no route of the gate's goes to the origin as it is, but for our key: a form that has one may have a button that goes elsewhere.
async fn unlisted(
    gate: &Gate,
    request: &Request,
    incoming: worker::Request,
    route: &Route,
) -> Result<Response> {
    let as_form = (route, Kind::Form);
    let encoding = Encoding::of(request.header("content-type").unwrap_or_default());
    let has_keys = gate.config.of_host(&request.host).any(Route::has_forms);
    if !has_keys || !matches!(encoding, Encoding::Pairs | Encoding::Parts(_)) {
        let body = incoming.inner().body().map(Into::into);
        return pass(gate, request, as_form, body).await;
    }
    // What is longer passes as it comes.
    let mut body = match read_body(request, &incoming, HELD_MAX).await {
        Ok(body) => body,
        Err(say) => return Problem::new(say).on(route, Kind::Form, request).answer(request),
    };
    body.cut(&encoding);
    pass(gate, request, as_form, body.to_send()?).await
}

/// What is not passed on under a key: it goes to the origin as it is, and its forms get keys on the way back.
async fn pass(
    gate: &Gate,
    request: &Request,
    (route, kind): (&Route, Kind),
    body: Option<JsValue>,
) -> Result<Response> {
    let headers = headers_to(request, route)?;
    if let Some(upgrade) = request.header("upgrade") {
        headers.set("upgrade", upgrade)?;
    }
    let url = without_key(&at_origin(request, route));
    let outgoing = request_to(&url, &request.method, &headers, body)?;
    match Fetch::Request(outgoing).send().await {
        Ok(response) => answer::from_origin(gate, request, route, response, Given::Passed).await,
        Err(_) => {
            // Who only wanted to see a page has sent nothing.
            let is_read = matches!(request.method.as_str(), "GET" | "HEAD");
            let say = if is_read { Say::Unreachable } else { Say::NoAnswer };
            Problem::new(say).on(route, kind, request).answer(request)
        }
    }
}

/// What a request is passed on under.
struct Key {
    /// Its owner, and its own text.
    owner: String,
    text: String,
    /// When its form was made, in ms since the epoch; a client's key has no age.
    minted_at_ms: Option<u64>,
    /// It may begin something: it is no form's that nobody here has signed.
    is_genuine: bool,
    /// A header says whose it is.
    is_named: bool,
}

/// A route of the gate's: the request is passed on once.
async fn gated(
    gate: &Gate,
    request: &Request,
    incoming: worker::Request,
    found: Found<'_>,
) -> Result<Response> {
    let Found { route, kind, pattern } = found;
    let refused = |problem: Problem| {
        let fields = [
            ("event", "refused".into()),
            ("route", pattern.to_string().into()),
            ("why", problem.slug().into()),
        ];
        log("info", &fields);
        problem.on(route, kind, request).answer(request)
    };
    let body = read_to_pass_on(request, &incoming, route.max_body).await;
    let mut body = match body {
        Ok(body) => body,
        Err(say) => return refused(Problem::new(say)),
    };
    let encoding = Encoding::of(request.header("content-type").unwrap_or_default());
    let length = body.read.len();
    let keys = match kind {
        Kind::Form => body.cut(&encoding),
        Kind::Api => Vec::new(),
    };
    let rest = &body.read;
    // A client of an API sends it again by itself.
    let again = |problem: Problem| match kind {
        Kind::Form => problem.again(gate, request, &encoding, rest),
        Kind::Api => problem,
    };
    let key = match kind {
        Kind::Form => Ok(form_key(gate, request, &keys)),
        Kind::Api => api_key(request, route),
    };
    let key = match key {
        Ok(Some(key)) => key,
        Ok(None) if route.missing == Missing::Pass => {
            log("warn", &[("event", "without_key".into()), ("route", pattern.to_string().into())]);
            return pass(gate, request, (route, kind), body.to_send()?).await;
        }
        Ok(None) => return refused(again(Problem::new(Say::KeyMissing))),
        Err(say) => return refused(Problem::new(say)),
    };
    let address = format!("{} {}?{}", request.method, request.path, request.query);
    let is_series = kind == Kind::Form && route.is_series(&key.owner);
    let mut secret = match is_series {
        true => Secret::of_address(&key.owner, &address),
        false => Secret::new(&key.owner, &key.text),
    };
    let is_old =
        key.minted_at_ms.is_some_and(|at_ms| request.now_ms >= at_ms.saturating_add(route.waits.keep_ms));
    let may_start = key.is_genuine && !is_old;
    // Of one that has not said how long it is the beginning counts, held or not.
    let is_large = body.rest.is_some() || (body.length.is_none() && length >= HELD_MAX as usize);
    let read = Read { body: rest, longer: is_large.then_some(body.length) };
    let ignored = Ignored::new(kind, &route.ignore);
    let form = |secret: &Secret| Form {
        fingerprint: fingerprint(secret, (&request.host, &address), &encoding, read, ignored),
        may_start,
        is_named: key.is_named,
        large: body.large(),
        made_at_ms: key.minted_at_ms.filter(|_| is_series),
        place: Place { host: request.host.clone(), route: pattern.to_string() },
    };
    let mut asked = ask(gate, request, route, &secret, form(&secret), &body).await;
    let is_edited =
        matches!(&asked, Ok((ObjectReply::Differs, _))) && kind == Kind::Form && route.edited == Edited::New;
    // A body that is not held has gone to the first one.
    if is_edited && !is_large {
        // What it says now is part of the key: sent twice it is still one.
        secret = Secret::new(&key.owner, &name_of_edited(&form(&secret).fingerprint));
        asked = ask(gate, request, route, &secret, form(&secret), &body).await;
    }
    let reference = secret.reference();
    let (reply, response) = match asked {
        Ok(asked) => asked,
        Err(error) => {
            log("error", &[("event", "platform".into()), ("error", error.to_string().into())]);
            return refused(again(Problem::new(Say::Unavailable).with_key(&key.text)));
        }
    };
    note(request, &found, reply, &reference);
    let problem = match reply {
        ObjectReply::Answered { replayed: true }
            if kind == Kind::Form && !visitor::may_be_answered(request) =>
        {
            return refused(Problem::new(Say::AlreadyDone));
        }
        ObjectReply::Answered { replayed } => {
            return answer::from_origin(gate, request, route, response, Given::Sent { replayed }).await;
        }
        ObjectReply::AlreadyDone => return refused(Problem::new(Say::AlreadyDone)),
        ObjectReply::TooMany => return refused(Problem::new(kind.of(Say::TooMany, Say::KeySpent))),
        ObjectReply::Nothing => return refused(Problem::new(Say::NothingHere)),
        ObjectReply::RateLimited => Problem::new(Say::RateLimited).with_key(&key.text),
        ObjectReply::Differs | ObjectReply::SentElsewhere => {
            Problem::new(Say::Differs).with_answer(&key.text, request)
        }
        ObjectReply::Unknown { quiet_ms: 0 } => Problem::new(Say::Unknown).with_reference(reference),
        // Sent as new it could be done twice: until then the form asks what has become of it.
        ObjectReply::Unknown { quiet_ms } => {
            Problem::new(Say::Unknown).with_reference(reference).quiet_for(quiet_ms).with_key(&key.text)
        }
        ObjectReply::UnderWay { retry_after_ms } => {
            Problem::new(Say::UnderWay).retry_after(retry_after_ms).with_key(&key.text)
        }
        ObjectReply::NeverSent => Problem::new(Say::NeverSent).retry_after(1000).with_key(&key.text),
        ObjectReply::NotDone => Problem::new(Say::NotDone),
        ObjectReply::Old => Problem::new(kind.of(Say::Old, Say::KeyExpired)),
    };
    refused(again(problem))
}

/// The line in the log of what was decided.
fn note(request: &Request, found: &Found<'_>, reply: ObjectReply, reference: &str) {
    let outcome = match reply {
        ObjectReply::Answered { replayed: true } => "replayed",
        ObjectReply::Answered { replayed: false } => "passed_on",
        ObjectReply::Unknown { .. } => "unknown",
        _ => "refused",
    };
    let fields: [(&str, Value); 6] = [
        ("event", "gated".into()),
        ("route", found.pattern.to_string().into()),
        ("origin", found.route.origin_host().into()),
        ("outcome", outcome.into()),
        ("reference", reference.into()),
        ("duration_ms", now_ms().saturating_sub(request.now_ms).into()),
    ];
    log(if outcome == "unknown" { "warn" } else { "info" }, &fields);
}

/// The key of a form: the first one that this gate has signed, or else the first. A form that has one is never passed on without it.
fn form_key(gate: &Gate, request: &Request, keys: &[String]) -> Option<Key> {
    let sent = keys.iter().map(String::as_str).chain(request.header("paid-once-key"));
    let keys: Vec<FormKey> = sent.filter_map(|text| FormKey::open(text, &gate.config.signing_keys)).collect();
    let key = keys.iter().find(|key| key.is_signed).or(keys.first())?;
    Some(Key {
        owner: visitor::of(request).unwrap_or_default().to_owned(),
        text: key.as_str().to_owned(),
        minted_at_ms: Some(key.minted_at_ms),
        is_genuine: key.is_signed,
        is_named: false,
    })
}

/// The key of a client, and whose it is: of whoever has its credentials, its session or the gate's cookie. Where the settings name no header all clients
/// share their keys, whatever cookies they have: those may be new at each answer.
fn api_key(request: &Request, route: &Route) -> std::result::Result<Option<Key>, Say> {
    let header = request.header("idempotency-key");
    let lines = header.map(IdempotencyKey::lines).unwrap_or_default();
    let lines =
        lines.into_iter().filter(|line| !(is_browsers_own(request, line) && is_as_firefox_writes(line)));
    let key = IdempotencyKey::from_sources(lines).map_err(|_| Say::KeyInvalid)?;
    let is_shared = route.identity.is_empty();
    let cookie = request.header("cookie").filter(|_| !is_shared).unwrap_or_default();
    let mut owner: Vec<&str> = route.identity.iter().filter_map(|name| request.header(name)).collect();
    let is_named = !says_nothing(&owner);
    // A session may have another value at each answer: it counts only where nothing else says who it is.
    if says_nothing(&owner) {
        owner = cookies::sessions(cookie, &route.session).collect();
    }
    if says_nothing(&owner) {
        owner = visitor::of(request).filter(|_| !is_shared).into_iter().collect();
    }
    // Who shared a key with strangers would be given their answers.
    if key.is_some() && owner.is_empty() && !is_shared {
        return Err(Say::Unidentified);
    }
    let owner = format!("api\n{}", owner.join("\n"));
    let key = key.map(|key| key.as_str().to_owned());
    Ok(key.map(|text| Key { owner, text, minted_at_ms: None, is_genuine: true, is_named }))
}

/// Whether these values name nobody: whoever sends an empty one is as much anybody as who sends none. An empty one beside another is part of a key's name.
fn says_nothing(values: &[&str]) -> bool {
    values.iter().all(|value| value.trim().is_empty())
}

/// Whether a number that a browser sends is written as Firefox writes its own: in quotes, of 64 bits of a hash. One that is bare or short, such as the
/// number of an order, a page's script has set: without it each retry would be passed on.
fn is_as_firefox_writes(line: &str) -> bool {
    let line = line.trim();
    let number = line.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    // One in 18,000 hashes is smaller.
    number.and_then(|number| number.parse().ok()).is_some_and(|number: u64| number >= 1_000_000_000_000_000)
}

/// Reads a body that is to be passed on once. One that does not say how long it is is held as a whole: where it broke off, what takes it would see its end,
/// and take a part for all of it.
async fn read_to_pass_on(
    request: &Request,
    incoming: &worker::Request,
    max_bytes: usize,
) -> std::result::Result<Body, Say> {
    if length_of(request).is_some_and(|length| length > max_bytes as u64) {
        return Err(Say::TooLarge);
    }
    let unsaid_max = usize::try_from(UNSAID_MAX).map_or(max_bytes, |most| most.min(max_bytes));
    let held = match length_of(request) {
        Some(_) => HELD_MAX,
        None => u32::try_from(unsaid_max).unwrap_or(UNSAID_MAX).saturating_add(1),
    };
    let body = read_body(request, incoming, held).await?;
    if body.read.len() > max_bytes || (body.rest.is_some() && body.length.is_none()) {
        body.rest.iter().for_each(drain);
        return Err(Say::TooLarge);
    }
    Ok(body)
}

/// Reads a body, or the beginning of a longer one.
async fn read_body(
    request: &Request,
    incoming: &worker::Request,
    held: u32,
) -> std::result::Result<Body, Say> {
    let length = length_of(request);
    let Some(stream) = incoming.inner().body() else {
        return Ok(Body { read: Vec::new(), rest: None, length });
    };
    let (read, rest) = beginning(&stream, held).await.map_err(|_| Say::Unreadable)?;
    // A body that broke off is nothing that anybody has sent.
    if rest.is_none() && length.is_some_and(|length| length != read.len() as u64) {
        return Err(Say::Unreadable);
    }
    Ok(Body { read, rest, length })
}

/// How long a body is, as it says itself.
fn length_of(request: &Request) -> Option<u64> {
    request.header("content-length")?.trim().parse().ok()
}

/// How much of a body is held, in bytes.
const HELD_MAX: u32 = 1 << 20;
/// How much of one that does not say how long it is.
const UNSAID_MAX: u32 = 10 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_value_names_nobody() {
        for values in [&[][..], &[""], &["", " "]] {
            assert!(says_nothing(values), "{values:?}");
        }
        assert!(!says_nothing(&["", "Bearer one"]));
    }

    #[test]
    fn only_a_large_number_in_quotes_is_one_that_firefox_has_made() {
        for line in ["\"1735912983204511234\"", " \"18446744073709551615\"", "\"1000000000000000\""] {
            assert!(is_as_firefox_writes(line), "{line}");
        }
        for line in ["1735912983204511234", "1042", "\"1042\"", "\"1790000000000\"", "\"a\"", "\"", ""] {
            assert!(!is_as_firefox_writes(line), "{line}");
        }
    }
}
