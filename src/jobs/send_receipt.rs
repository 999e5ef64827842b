//! `send_receipt`: an email through Resend, once. <https://resend.com/docs/dashboard/emails/idempotency-keys>
//!
//! Resend keeps an idempotency key for 24 hours, longer than all attempts of a job take; afterwards the job's row protects it. An attempt that
//! fails stores the email, so that it never changes under one key; one that breaks off leaves nothing, and is made again with the same job. So
//! a job without a row is sent within the same time after it was staged, and not later: it may have been sent before.

use serde::Deserialize;
use worker::Env;

use super::ledger::Ledger;
use super::outcome::{Done, Failure};
use super::receipt;
use super::service::{Service, post};
use crate::accounts;
use crate::config::Config;
use messages::job::Job;
use once::trace::TraceContext;
use payments::transitions::receipt::Receipt;
use runtime::trace;
use web::trace::Kind;

/// For how long after the first attempt the key may be sent again, in ms: less than the 24 h for which Resend keeps it.
const WINDOW_MS: u64 = 23 * 3_600_000;

pub(super) async fn run(
    env: &Env,
    config: &Config,
    job: &Job,
    ledger: &Ledger<'_>,
    trace: Option<TraceContext>,
) -> Result<Done, Failure> {
    let receipt: Receipt = json_text::from_str(&job.payload.to_string())
        .map_err(|_| Failure::Permanent("not a receipt".to_owned()))?;
    let Some(email) = &config.email else {
        return match ledger.begin(None).await? {
            Some(_) => Ok(Done::Recorded("not sent: RESEND_API_KEY is not set".to_owned())),
            None => Ok(Done::Already),
        };
    };
    let seller = match &receipt.account {
        Some(account) => accounts::of_id(env, config, account, ledger.now_ms).await.map_err(|why| {
            Failure::Retryable(match why {
                accounts::Unreadable::Registry => "the registry of accounts cannot be read".to_owned(),
                accounts::Unreadable::Settings => format!("the settings of {account} cannot be read"),
            })
        })?,
        None => None,
    };
    let seller = seller.as_ref().and_then(|seller| seller.account.shop.as_ref());
    let rendered = receipt::email(&receipt, &email.from, seller)
        .map_err(|error| Failure::Permanent(error.to_string()))?;
    let Some(known) = ledger.begin(Some(rendered.to_string())).await? else {
        return Ok(Done::Already);
    };
    let since_ms = match (ledger.has_row(), known.attempts) {
        (false, _) => job.staged_at_ms,
        // An operator has requeued it.
        (true, 1) => ledger.now_ms,
        (true, _) => known.first_at_ms,
    };
    if ledger.now_ms.saturating_sub(since_ms) > WINDOW_MS {
        return Err(Failure::Permanent(
            "whether it was sent can no longer be found out by its key".to_owned(),
        ));
    }
    let service = Service { binding: "RESEND", base: &email.base, secret: &email.key };
    let body = known.frozen.unwrap_or_default();
    let mut span = trace::begin(trace, "resend send_email", Kind::Client);
    let response = post(env, &service, "/emails", &body, &job.job_id, &mut span).await;
    trace::end(span);
    let response = response.map_err(Failure::Retryable)?;
    read(response.status, &response.body)
}

#[derive(Deserialize, Default)]
struct Answer {
    #[serde(default)]
    id: String,
    #[serde(default)]
    name: String,
}

fn read(status: u16, body: &str) -> Result<Done, Failure> {
    let answer: Answer = json_text::from_str(body).unwrap_or_default();
    match (status, answer.name.as_str()) {
        (200..300, _) if !answer.id.is_empty() => Ok(Done::Recorded(answer.id)),
        (409, "invalid_idempotent_request") => {
            Err(Failure::Permanent("another email was sent under its key".to_owned()))
        }
        // Retry with the same bytes and key, as in what follows: in flight, rate limited, or an error there.
        (200..300, _) => Err(Failure::Retryable(format!("{status}, and no answer of Resend's"))),
        (409 | 429 | 500.., name) => Err(Failure::Retryable(format!("{status} {name}"))),
        // The secret is wrong, was rolled or may not send, or the domain of RECEIPT_FROM is not verified: nothing is wrong with the email.
        (401 | 403, name) => Err(Failure::Unready(format!("{status} {name}"))),
        (_, name) => Err(Failure::Permanent(format!("{status} {name}"))),
    }
}
