//! The queue's messages: JSON text with a version, because during a deploy an old object may send to a new consumer.

use serde::{Deserialize, Serialize};

use crate::snapshot::Snapshot;
use once::trace::{TraceContext, optional};
use payments::payment::records::JobKind;

/// The version of a message that is one job.
pub const VERSION: u32 = 1;
/// The version of a message of several jobs: `{"version": 2, "jobs": […]}`.
const SEVERAL: u32 = 2;
/// What such a message has around its jobs, in bytes, and between two of them.
const AROUND_BYTES: usize = 32;

/// The longest message, in bytes: the queue takes 128 KB, including its own overhead.
pub const MESSAGE_MAX_BYTES: usize = 120_000;
/// The largest batch, in bytes: the queue takes 256 KB.
const BATCH_MAX_BYTES: usize = 240_000;
/// The most messages in a batch.
const BATCH_MAX: usize = 100;
/// What the queue adds to each message, in bytes.
const ENVELOPE_BYTES: usize = 200;

/// A job in the queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// See [`VERSION`].
    pub version: u32,
    /// Unique for ever.
    pub job_id: String,
    /// Which job.
    pub kind: JobKind,
    /// The object that staged it, as hexadecimal digits.
    pub object: String,
    /// The job's input.
    pub payload: serde_json::Value,
    /// When it was staged, in ms since the epoch.
    pub staged_at_ms: u64,
    /// The span that sent it.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "optional")]
    pub trace: Option<TraceContext>,
    /// It goes on by itself, in the queue of its kind, and has all the time that it needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub apart: Option<Apart>,
    /// The payment that it is about, where the read model has shards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payment: Option<JobPayment>,
}

/// What a job that goes on by itself takes with it from its last try.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Apart {
    /// What was sent, if nobody knows what became of it: it is sent again as it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frozen: Option<String>,
    /// The result, if it is done and was not written down: that is all that is left to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// How often it was not tried, since others went before it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub passed_over: u32,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
const fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// What says where the rows of a payment stand: see [`placement`](crate::placement).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobPayment {
    /// Whose it is, as stored.
    pub owner: String,
    /// When it was made, in ms since the epoch.
    pub made_at_ms: u64,
}

impl JobPayment {
    /// Of the payment that a snapshot is of.
    pub fn of_snapshot(snapshot: &Snapshot) -> Option<Self> {
        let payment = snapshot.payment.as_ref()?;
        Some(Self { owner: snapshot.owner.clone(), made_at_ms: payment.created_at_ms })
    }
}

impl Job {
    /// The same job as it goes on by itself. What was sent is left out where the queue would not take it.
    pub fn going_on(&self, apart: Apart) -> serde_json::Result<String> {
        let before = self.apart.clone().unwrap_or_default();
        let Apart { frozen, result, passed_over } = apart;
        let apart = Apart { frozen: frozen.or(before.frozen), result: result.or(before.result), passed_over };
        let mut job = Self { apart: Some(apart), ..self.clone() };
        let text = serde_json::to_string(&job)?;
        if text.len() <= MESSAGE_MAX_BYTES {
            return Ok(text);
        }
        job.apart.iter_mut().for_each(|apart| apart.frozen = None);
        serde_json::to_string(&job)
    }

    /// The payment that it is about, where it says so: a projection always does.
    pub fn about(&self) -> Option<JobPayment> {
        let of_payload = || {
            let owner = self.payload.get("owner")?.as_str()?.to_owned();
            let made_at_ms = self.payload.pointer("/payment/created_at_ms")?.as_u64()?;
            Some(JobPayment { owner, made_at_ms })
        };
        let told = (self.kind == JobKind::Project).then(of_payload).flatten();
        self.payment.clone().or(told)
    }

    /// A projection as it is sent, with as much of the snapshot as fits.
    pub fn projecting(mut self, mut snapshot: Snapshot) -> serde_json::Result<String> {
        loop {
            self.payload = serde_json::to_value(&snapshot)?;
            let text = serde_json::to_string(&self)?;
            if text.len() <= MESSAGE_MAX_BYTES || !snapshot.halve() {
                return Ok(text);
            }
        }
    }

    /// Reads a message, which carries one job or several. The error quotes nothing of it.
    pub fn read(text: &str) -> Result<Vec<Self>, String> {
        #[derive(Deserialize)]
        struct Several {
            version: u32,
            jobs: Option<Vec<Job>>,
        }
        let unreadable = |error| format!("not a job ({})", json_text::unquoted(&error));
        let message: Several = json_text::from_str(text).map_err(unreadable)?;
        match (message.version, message.jobs) {
            (VERSION, None) => Ok(vec![json_text::from_str(text).map_err(unreadable)?]),
            (SEVERAL, Some(jobs)) if jobs.iter().all(|job| job.version == VERSION) => Ok(jobs),
            (other, _) => Err(format!("a job of version {other}")),
        }
    }
}

/// A message, and what it is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message<T> {
    /// The jobs, each as it was given.
    pub jobs: Vec<T>,
    /// What is sent.
    pub text: String,
}

/// Puts jobs into as few messages as the queue takes, in order; each is given with its own text. One that is too long goes alone.
pub fn messages<T>(jobs: Vec<(T, String)>) -> Vec<Message<T>> {
    let mut packed: Vec<Vec<(T, String)>> = Vec::new();
    let mut bytes = 0;
    for (job, text) in jobs {
        let more = text.len() + AROUND_BYTES;
        match packed.last_mut().filter(|_| bytes + more <= MESSAGE_MAX_BYTES) {
            Some(several) => {
                bytes += more;
                several.push((job, text));
            }
            None => {
                bytes = more;
                packed.push(vec![(job, text)]);
            }
        }
    }
    packed.into_iter().map(message).collect()
}

fn message<T>(jobs: Vec<(T, String)>) -> Message<T> {
    let (jobs, mut texts): (Vec<T>, Vec<String>) = jobs.into_iter().unzip();
    let text = match texts.len() {
        1 => texts.remove(0),
        _ => format!(r#"{{"version":{SEVERAL},"jobs":[{}]}}"#, texts.join(",")),
    };
    Message { jobs, text }
}

/// What is known in the read model of an object's jobs: of those with the ids `?1`, a JSON array, which are over, as one; up to which version
/// the object `?2` is shown; and up to which audit record all of them are there, from `?3` on, up to which they were.
pub const OVER: &str = "SELECT
        (SELECT json_group_array(job_id) FROM (SELECT job_id FROM jobs
         WHERE job_id IN (SELECT value FROM json_each(?1)) AND state IN ('done', 'dead', 'purged')
         UNION SELECT done.key FROM payments, json_each(payments.done_jobs) AS done
         WHERE payments.payment_id = ?4 AND done.key IN (SELECT value FROM json_each(?1)))) AS jobs,
        (SELECT coalesce(max(version), 0) FROM (SELECT version FROM keys WHERE object = ?2
            UNION ALL SELECT version FROM payments WHERE payment_id = ?4)) AS version,
        (WITH RECURSIVE told (audit_id) AS (SELECT ?3 UNION ALL
            SELECT audit_id + 1 FROM told WHERE EXISTS (SELECT 1 FROM audit_records WHERE object = ?2 AND audit_id = told.audit_id + 1)
                OR told.audit_id = 0 AND EXISTS (SELECT 1 FROM payments WHERE payment_id = ?4 AND created_data IS NOT NULL)
                OR told.audit_id = 1 AND EXISTS (SELECT 1 FROM payments WHERE payment_id = ?4 AND captured_data IS NOT NULL))
         SELECT max(audit_id) FROM told) AS audit_through";

/// The condition for the rows of `jobs` that are an object's: `?1` is the object, `?2` its payment or NULL, `?3` a JSON array of its refunds.
/// All ids of jobs begin with one of these, and the sign that comes after `_` ends each range. What was left by older releases under
/// other ids is found by the object.
pub const OF_OBJECT: &str =
    "(job_id > ?1 || '_' AND job_id < ?1 || '`' OR job_id > ?2 || '_' AND job_id < ?2 || '`'
        OR job_id IN (SELECT value || '_receipt' FROM json_each(?3))
        OR object = ?1 AND state IN ('dead', 'attempted'))";

/// The answer to [`OVER`].
#[derive(Debug, Deserialize)]
pub struct OverRow {
    /// A JSON array of ids.
    pub jobs: String,
    /// 0 where nothing is shown.
    pub version: u64,
    /// The last audit record of which all before it are there, too.
    pub audit_through: u64,
}

/// Splits messages into batches that the queue takes, in order. `text` gives a message's text.
pub fn batches<T>(messages: Vec<T>, text: impl Fn(&T) -> &str) -> Vec<Vec<T>> {
    let mut batches: Vec<Vec<T>> = Vec::new();
    let mut bytes = 0;
    for message in messages {
        // The queue refuses a batch with a message that is too long: it goes alone.
        let more = match text(&message).len() {
            ..=MESSAGE_MAX_BYTES => text(&message).len() + ENVELOPE_BYTES,
            _ => BATCH_MAX_BYTES,
        };
        match batches.last_mut().filter(|batch| batch.len() < BATCH_MAX && bytes + more <= BATCH_MAX_BYTES) {
            Some(batch) => {
                bytes += more;
                batch.push(message);
            }
            None => {
                bytes = more;
                batches.push(vec![message]);
            }
        }
    }
    batches
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = r#"{"version":1,"job_id":"a","kind":"send_receipt","object":"00","payload":{"to":"x"},"staged_at_ms":7}"#;

    #[test]
    fn a_message_of_the_release_before_is_read_and_one_that_goes_on_alone_can_be_read_by_it() {
        let [job] = Job::read(OLD).unwrap().try_into().unwrap();
        assert!(job.apart.is_none());
        assert_eq!(serde_json::to_string(&job).unwrap(), OLD, "nothing is added to what leaves an object");
        let left = Apart { frozen: Some("bytes".to_owned()), ..Apart::default() };
        let text = job.going_on(left.clone()).unwrap();
        let [apart] = Job::read(&text).unwrap().try_into().unwrap();
        assert_eq!(apart, Job { apart: Some(left), ..job });
        let again = Job::read(&apart.going_on(Apart::default()).unwrap()).unwrap();
        assert_eq!(again[..], *std::slice::from_ref(&apart), "what was sent stays with it");
        let passed_over = Apart { passed_over: 7, ..Apart::default() };
        let [again] = Job::read(&apart.going_on(passed_over).unwrap()).unwrap().try_into().unwrap();
        assert_eq!(again.apart.map(|apart| apart.passed_over), Some(7));
    }

    #[test]
    fn what_was_sent_is_left_out_of_a_message_that_would_be_too_long() {
        let [job] = Job::read(OLD).unwrap().try_into().unwrap();
        let long = Apart { frozen: Some("x".repeat(MESSAGE_MAX_BYTES)), ..Apart::default() };
        let [job] = Job::read(&job.going_on(long).unwrap()).unwrap().try_into().unwrap();
        assert_eq!(job.apart, Some(Apart::default()));
    }
}
