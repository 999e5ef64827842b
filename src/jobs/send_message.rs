//! `send_message`: a text message, sent at most once, because the service has no idempotency keys.
//!
//! The attempt is recorded before it is made. If its outcome is unknown, it is not repeated: the job becomes a dead letter for an
//! operator, unless the service says that nothing was sent. A second message that arrives during an attempt waits for its end. While D1
//! does not answer, nothing is sent.

use serde::Deserialize;
use serde_json::json;
use worker::Env;

use super::ledger::{JobRow, Ledger};
use super::outcome::{Done, Failure};
use super::service::{Service, post};
use crate::config::Config;
use messages::job::Job;

/// How long an attempt takes at most, in seconds: longer than its call may take.
pub(super) const TRY_TAKES_S: u32 = 60;

/// A request to another service.
#[derive(Debug, Deserialize)]
struct TextMessage {
    body: String,
}

pub(super) async fn run(env: &Env, config: &Config, job: &Job, ledger: &Ledger<'_>) -> Result<Done, Failure> {
    let message =
        TextMessage::deserialize(&job.payload).map_err(|_| Failure::Permanent("not a message".to_owned()))?;
    if ledger.begin(None, true).await?.is_none() {
        return match ledger.known().await? {
            Some(known) if known.is_over() => Ok(Done::Already),
            Some(known) if is_young(&known, ledger.now_ms) => Ok(Done::InProgress),
            Some(_) => Err(unknown("an earlier try broke off")),
            None => Ok(Done::Already),
        };
    }
    let Some(sms) = &config.sms else {
        return Ok(Done::Recorded("not sent: SMS_API_KEY is not set".to_owned()));
    };
    let body = json!({ "to": sms.pilot, "body": message.body, "reference": job.job_id }).to_string();
    let service = Service { binding: "SMS", base: &sms.base, secret: &sms.key };
    match post(env, &service, "/messages", &body, None).await {
        Ok(response) if (200..300).contains(&response.status) => Ok(Done::Recorded(sent_id(&response.body))),
        Ok(response) if matches!(response.status, 429 | 500..) && is_safe(&response.body) => {
            Err(Failure::NotExecuted(format!("{}: nothing was sent, it says", response.status)))
        }
        // Refused: nothing was sent, and a retry would be refused, too.
        Ok(response) if (400..500).contains(&response.status) && response.status != 408 => {
            Err(Failure::Permanent(format!("refused with {}", response.status)))
        }
        Ok(response) => Err(unknown(&response.status.to_string())),
        Err(reason) => Err(unknown(&reason)),
    }
}

fn is_young(known: &JobRow, now_ms: u64) -> bool {
    now_ms.saturating_sub(known.updated_at_ms) < u64::from(TRY_TAKES_S) * 1000
}

fn unknown(reason: &str) -> Failure {
    Failure::Permanent(format!("outcome unknown ({reason}): not sent again; ask the provider or the pilot"))
}

#[derive(Deserialize, Default)]
struct Answer {
    #[serde(default)]
    id: String,
    #[serde(default)]
    safe_to_retry: bool,
}

fn sent_id(body: &str) -> String {
    serde_json::from_str::<Answer>(body).unwrap_or_default().id
}

fn is_safe(body: &str) -> bool {
    serde_json::from_str::<Answer>(body).unwrap_or_default().safe_to_retry
}
