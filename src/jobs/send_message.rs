//! `send_message`: a text message, at most once: nothing protects a second send.
//!
//! That it is tried is written down first. When a try's outcome is not known it is never repeated, but lies in the dead
//! letters for a person; unless the provider has said that nothing was sent. A second message that comes while a try may
//! still be under way waits for its end; where the ledger does not answer, nothing is sent and nothing is concluded.

use serde::Deserialize;
use serde_json::json;
use worker::Env;

use super::ledger::{Known, Ledger};
use super::message::Job;
use super::outcome::{Done, Failure};
use super::post::{Service, post};
use crate::config::Config;

/// How long a try takes at most, in seconds: longer than its call may take.
pub(super) const TRY_TAKES_S: u32 = 60;

/// What is sent.
#[derive(Debug, Deserialize)]
struct TextMessage {
    body: String,
}

pub(super) async fn run(env: &Env, config: &Config, job: &Job, ledger: &Ledger<'_>) -> Result<Done, Failure> {
    let message =
        TextMessage::deserialize(&job.payload).map_err(|_| Failure::Never("not a message".to_owned()))?;
    if ledger.begin(None, true).await?.is_none() {
        return match ledger.known().await? {
            Some(known) if known.is_over() => Ok(Done::Already),
            Some(known) if is_young(&known, ledger.now_ms) => Ok(Done::UnderWay),
            Some(_) => Err(unknown("an earlier try broke off")),
            None => Ok(Done::Already),
        };
    }
    let Some(sms) = &config.sms else {
        return Ok(Done::As("not sent: SMS_API_KEY is not set".to_owned()));
    };
    let body = json!({ "to": sms.pilot, "body": message.body, "reference": job.job_id }).to_string();
    let service = Service { binding: "SMS", base: &sms.base, secret: &sms.key };
    match post(env, &service, "/messages", &body, None).await {
        Ok(posted) if (200..300).contains(&posted.status) => Ok(Done::As(sent_id(&posted.body))),
        Ok(posted) if matches!(posted.status, 429 | 500..) && is_safe(&posted.body) => {
            Err(Failure::NotDone(format!("{}: nothing was sent, it says", posted.status)))
        }
        // A refusal: nothing was sent, and nothing will be.
        Ok(posted) if (400..500).contains(&posted.status) && posted.status != 408 => {
            Err(Failure::Never(format!("refused with {}", posted.status)))
        }
        Ok(posted) => Err(unknown(&posted.status.to_string())),
        Err(reason) => Err(unknown(&reason)),
    }
}

fn is_young(known: &Known, now_ms: u64) -> bool {
    now_ms.saturating_sub(known.updated_at_ms) < u64::from(TRY_TAKES_S) * 1000
}

fn unknown(reason: &str) -> Failure {
    Failure::Never(format!("outcome unknown ({reason}): not sent again; ask the provider or the pilot"))
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
