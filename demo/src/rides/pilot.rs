//! The text message to a ride's pilot. Its service knows no idempotency: a message whose answer was lost is not sent again.

use std::time::Duration;

use once::object_state::StagedJob;
use runtime::http_client::{OutboundRequest, fetch};
use serde::Deserialize;
use serde_json::json;
use worker::Env;

/// The simulator takes any key.
const KEY: &str = "sms_demo";
/// The number of whoever drives.
const PILOT: &str = "+15550100";
/// How long the service may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// What became of a message.
pub(super) enum Sent {
    /// It was sent, or refused for good, or nobody knows: it is not sent again.
    Done(String),
    /// Nothing was sent, the service says: it may be sent again.
    NotYet(String),
}

/// Sends the message of a job.
pub(super) async fn tell(env: &Env, job: &StagedJob<()>) -> Sent {
    #[derive(Deserialize, Default)]
    struct Answer {
        #[serde(default)]
        safe_to_retry: bool,
    }
    let body = job.payload.get("body").cloned().unwrap_or_default();
    let body = json!({ "to": PILOT, "body": body, "reference": job.job_id }).to_string();
    let request = OutboundRequest {
        method: "POST",
        url: "https://sms.simulator/sms/messages".to_owned(),
        headers: vec![
            ("authorization", format!("Bearer {KEY}")),
            ("content-type", "application/json".to_owned()),
        ],
        body: Some(&body),
    };
    match fetch(env, Some("SIMULATOR"), &request, TIMEOUT).await {
        Err(error) => Sent::Done(error),
        Ok((response, body)) => {
            let status = response.status_code();
            let answer = serde_json::from_str::<Answer>(&body).unwrap_or_default();
            let is_later = matches!(status, 429 | 500..) && answer.safe_to_retry;
            if is_later { Sent::NotYet(status.to_string()) } else { Sent::Done(status.to_string()) }
        }
    }
}
