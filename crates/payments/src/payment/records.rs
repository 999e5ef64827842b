//! What is written down beside the state of a payment: audit records, the provider's events, and which jobs follow.

use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use crate::payment::provider::Provider;
use once::id::Owner;

/// What an effect was, who caused it and when: one for each effect, in the effect's own transaction.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct AuditRecord {
    /// Its number within the object, from 1: it is given as the record is committed.
    pub audit_id: u64,
    /// When, in ms since the epoch.
    pub at_ms: u64,
    /// On whose behalf.
    #[serde(serialize_with = "as_text")]
    pub actor: Owner,
    /// What was done, such as `payment.captured`.
    pub action: &'static str,
    /// The id of what it was done to.
    pub subject: String,
    /// A JSON object with the facts: amounts and ids, nothing secret.
    pub data: Value,
}

fn as_text<S: Serializer>(owner: &Owner, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&owner.to_text())
}

/// The fact of an audit record that names the operator who asked on the actor's behalf.
pub const OPERATOR: &str = "operator";

impl AuditRecord {
    /// Names who asked for it, if that was not the actor.
    pub fn asked_by(&mut self, operator: Option<&str>) {
        if let (Some(operator), Value::Object(facts)) = (operator, &mut self.data) {
            facts.insert(OPERATOR.to_owned(), operator.into());
        }
    }
}

/// A kind of job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobKind {
    /// Carries a snapshot of the object into the read model.
    Project,
    /// Sends an email about money that has moved.
    SendReceipt,
    /// Tells the shop's endpoint of an event. No object stages it: it follows from a projection.
    DeliverWebhook,
    /// A text message to a ride's pilot, which only releases before have staged: nothing sends it any more.
    #[serde(rename = "send_message")]
    Retired,
}

impl JobKind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Project, Self::SendReceipt, Self::DeliverWebhook, Self::Retired];

    /// The name as stored.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Project => "project",
            Self::SendReceipt => "send_receipt",
            Self::DeliverWebhook => "deliver_webhook",
            Self::Retired => "send_message",
        }
    }

    /// From the stored name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }
}

/// What an erasure has still to drop where jobs have kept it: in the read model.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Unpurged {
    /// What the object says from this version on has nothing of it any more.
    pub version: u64,
    /// The jobs that were staged: their messages may still be in the queue, and must do nothing.
    pub jobs: Vec<UnpurgedJob>,
    /// When the alarm tries it, in ms since the epoch.
    pub next_at_ms: u64,
}

/// A job that was staged as the personal data was erased.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct UnpurgedJob {
    /// Its id.
    pub job_id: String,
    /// Its kind.
    pub kind: JobKind,
    /// In ms since the epoch.
    pub staged_at_ms: u64,
}

/// An event that was taken in: a second one of this id changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct TakenEvent {
    /// The provider's id of it.
    pub event_id: String,
    /// Who told.
    pub provider: Provider,
    /// The provider's word for what happened.
    pub kind: String,
    /// When it came, in ms since the epoch.
    pub received_at_ms: u64,
}

/// What a phase writes down beside the state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct Facts {
    /// Audit records.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub audit: Vec<AuditRecord>,
    /// Events that were taken in.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<TakenEvent>,
}
