//! Emails while the read model does not answer.
//!
//! It knows which jobs are over, so a job waits for its word. An email need not: the object that has staged it forgets it once it is over or
//! erased, and until then the service for emails knows by its key whether it was sent.

use std::time::Duration;

use messages::job::Job;
use messages::message::ObjectRequest;
use once::id::ObjectId;
use payments::payment::records::JobKind;
use runtime::client::ask;
use runtime::http_client::within;
use serde::Deserialize;
use worker::Env;

/// How long the object has to say whether it waits for a job.
const OBJECT_ANSWERS: Duration = Duration::from_secs(5);

/// Whether a job may be done though the read model has not said that it is not over. One that has been done already is not.
pub(super) async fn may_send(env: &Env, job: &Job) -> bool {
    let is_new = job.apart.as_ref().is_some_and(|apart| apart.result.is_none());
    match job.kind {
        JobKind::SendReceipt => is_new && is_staged(env, job).await,
        // Without D1 it is not known where it goes.
        JobKind::DeliverWebhook | JobKind::Project | JobKind::Retired => false,
    }
}

/// What an object shows of its jobs, of all that it shows an operator (`messages::inspection::Inspection`).
#[derive(Deserialize)]
struct Staging {
    jobs: Vec<Staged>,
}

#[derive(Deserialize)]
struct Staged {
    job_id: String,
}

async fn is_staged(env: &Env, job: &Job) -> bool {
    let Some(object) = ObjectId::from_hex(&job.object) else { return false };
    let inspected = ask::<Option<Staging>>(env, object, &ObjectRequest::Inspect);
    match within(OBJECT_ANSWERS, "the object", inspected).await {
        Ok(inspected) => inspected.is_some_and(|it| it.jobs.iter().any(|staged| staged.job_id == job.job_id)),
        Err(_) => false,
    }
}
