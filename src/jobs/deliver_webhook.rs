//! `deliver_webhook`: tells a shop's endpoint of an event, until it answers with 2xx. <https://www.standardwebhooks.com/>
//!
//! An event is told at least once: each attempt has the same id, and sends the same bytes to wherever the endpoint is by then.

use std::cell::RefCell;

use worker::Env;

use super::ledger::Ledger;
use super::outcome::{Done, Failure};
use super::slow::SlowEndpoints;
use crate::accounts;
use crate::config::Config;
use crate::deliveries::send::{Message, host, send};
use crate::deliveries::{are_on, known};
use messages::event::{ACCOUNT, BODY, TOLD_FOR_MS};
use messages::job::Job;
use once::trace::TraceContext;
use runtime::{now_ms, trace};
use serde_json::Value;
use web::trace::Kind;

thread_local! {
    static SLOW: RefCell<SlowEndpoints> = const { RefCell::new(SlowEndpoints::new()) };
}

pub(super) async fn run(
    env: &Env,
    config: &Config,
    job: &Job,
    ledger: &Ledger<'_>,
    trace: Option<TraceContext>,
) -> Result<Done, Failure> {
    let part = |name: &str| job.payload.get(name).and_then(Value::as_str).map(str::to_owned);
    let (Some(account), Some(body)) = (part(ACCOUNT), part(BODY)) else {
        return Err(Failure::Permanent("not a delivery".to_owned()));
    };
    if !are_on(env) {
        return not_sent(ledger, "DELIVERIES is not bound").await;
    }
    let seller = accounts::of_id(env, config, &account, ledger.now_ms)
        .await
        .map_err(|_| Failure::Retryable("the account cannot be read".to_owned()))?;
    if seller.is_none_or(|seller| seller.is_closed) {
        if ledger.is_over() {
            return Ok(Done::Already);
        }
        ledger.touch().await?;
        return Err(of_closed_account(job.staged_at_ms, ledger.now_ms));
    }
    let Some(endpoint) = known::of(env, config, &account, ledger.now_ms).await? else {
        return not_sent(ledger, "the account has no endpoint any more").await;
    };
    if !endpoint.is_told_of(job.staged_at_ms) {
        return not_sent(ledger, "it is of before the account's endpoint was made").await;
    }
    if ledger.is_over() {
        return Ok(Done::Already);
    }
    let host = host(&endpoint.url);
    if !SLOW.with_borrow_mut(|slow| slow.may_begin(&account, now_ms())) {
        ledger.touch().await?;
        return Err(Failure::NotTried(format!("{host} was slow a moment ago")));
    }
    let begun = ledger.begin(Some(body)).await;
    if !matches!(begun, Ok(Some(_))) {
        SLOW.with_borrow_mut(|slow| slow.let_go(&account));
    }
    let Some(known) = begun? else { return Ok(Done::Already) };
    let body = known.frozen.unwrap_or_default();
    let mut span = trace::begin(trace, "deliver webhook", Kind::Client);
    if let Some(span) = &mut span {
        span.set("http.request.method", "POST");
    }
    let message = Message { account: &account, id: &job.job_id, body: &body };
    let began_ms = now_ms();
    let sent = send(env, config, &endpoint, message).await;
    SLOW.with_borrow_mut(|slow| slow.ended(&account, now_ms().saturating_sub(began_ms)));
    if let (Some(span), Ok(status)) = (&mut span, &sent) {
        span.answered(*status);
    }
    trace::end(span);
    match sent {
        Ok(status) => read(status, host),
        Err(error) => Err(Failure::Retryable(format!("{host}: {error}"))),
    }
}

/// What an answer of this status means. It is that of the endpoint, and the body does not count.
fn read(status: u16, host: &str) -> Result<Done, Failure> {
    match status {
        200..300 => Ok(Done::Recorded(format!("{status} from {host}"))),
        // Its owner says that nothing is wanted there any more.
        410 => Err(Failure::Permanent(format!("{host} has answered 410: it is gone"))),
        300..400 => {
            Err(Failure::Retryable(format!("{host} has answered {status}: a redirect is not followed")))
        }
        status => Err(Failure::Retryable(format!("{host} has answered {status}"))),
    }
}

/// An account that is closed may be opened again, and one that is missing may come back with D1: what happened meanwhile waits, and is sent by a person
/// after three days.
fn of_closed_account(staged_at_ms: u64, now_ms: u64) -> Failure {
    let why = "the account is closed".to_owned();
    match now_ms.saturating_sub(staged_at_ms) {
        0..TOLD_FOR_MS => Failure::NotTried(why),
        TOLD_FOR_MS.. => Failure::Permanent(why),
    }
}

async fn not_sent(ledger: &Ledger<'_>, why: &str) -> Result<Done, Failure> {
    Ok(match ledger.begin(None).await? {
        Some(_) => Done::Recorded(format!("not sent: {why}")),
        None => Done::Already,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_closed_account_it_waits_for_three_days_and_is_a_dead_letter_then() {
        let of = |age_ms| of_closed_account(1_000, 1_000 + age_ms);
        assert!(matches!(of(0), Failure::NotTried(_)) && matches!(of(TOLD_FOR_MS - 1), Failure::NotTried(_)));
        assert!(matches!(of(TOLD_FOR_MS), Failure::Permanent(_)));
    }

    #[test]
    fn only_2xx_ends_a_delivery_and_410_ends_it_for_good() {
        let of = |status| match read(status, "shop.example") {
            Ok(Done::Recorded(result)) => format!("done: {result}"),
            Err(Failure::Permanent(error)) => format!("dead: {error}"),
            Err(Failure::Retryable(error)) => format!("again: {error}"),
            _ => "otherwise".to_owned(),
        };
        for status in [200, 202, 204, 299] {
            assert_eq!(of(status), format!("done: {status} from shop.example"));
        }
        assert_eq!(of(410), "dead: shop.example has answered 410: it is gone");
        assert_eq!(of(302), "again: shop.example has answered 302: a redirect is not followed");
        for status in [199, 300, 400, 401, 404, 409, 429, 500, 503] {
            assert!(
                of(status).starts_with(&format!("again: shop.example has answered {status}")),
                "{status}"
            );
        }
    }
}
