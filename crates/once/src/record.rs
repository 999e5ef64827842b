//! The record of a key: what was asked, how far it came, who works on it, and how it ended.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::context::Context;
use super::domain::{Domain, Point};
use super::fingerprint::{Canonical, Fingerprint};
use super::id::{InstanceId, ObjectId, Owner, RequestId};
use super::key::KeyHash;
use super::skip::is_zero;
use super::trace::{TraceContext, optional};

/// The largest body that is stored, in bytes.
pub const BODY_MAX_BYTES: usize = 1 << 20;

/// After how many runs without a result a person is asked to look: with the pauses in between, about an hour.
const FLAGGED_AFTER: u32 = 16;

/// How far an operation has come. It only advances; what lies before it is done and is never done again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RecoveryPoint<P> {
    /// The key is known, nothing has happened.
    Started,
    /// A point of the flow's own.
    At(P),
    /// The response is stored.
    Finished,
}

impl<P: Point> RecoveryPoint<P> {
    /// The name as stored and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::At(point) => point.as_str(),
            Self::Finished => "finished",
        }
    }

    /// From the stored name.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "started" => Some(Self::Started),
            "finished" => Some(Self::Finished),
            other => P::parse(other).map(Self::At),
        }
    }
}

impl<P: Point> Serialize for RecoveryPoint<P> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de, P: Point> Deserialize<'de> for RecoveryPoint<P> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| D::Error::custom(format!("no recovery point is called {text}")))
    }
}

/// Who is answered, and how: decides the form of the stored response, nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Channel {
    /// JSON and problem details.
    Api,
    /// A browser's form: a redirect to a page.
    Form,
}

/// A response as it is stored and replayed, byte for byte.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct StoredResponse {
    /// The HTTP status.
    pub status: u16,
    /// The headers that belong to the result; those of the transport are added at each answer.
    pub headers: Vec<(String, String)>,
    /// The body's bytes; at most [`BODY_MAX_BYTES`].
    #[serde(with = "base64_bytes")]
    pub body: Vec<u8>,
}

/// A response as an operator can read it: its body as text where it is text.
mod legible {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::{StoredResponse, base64_bytes};

    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Body {
        Text(String),
        Base64(#[serde(with = "base64_bytes")] Vec<u8>),
    }

    #[derive(Serialize, Deserialize)]
    struct Legible {
        status: u16,
        headers: Vec<(String, String)>,
        body: Body,
    }

    pub(super) fn serialize<S: Serializer>(
        response: &StoredResponse,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let StoredResponse { status, headers, body } = response.clone();
        let body = String::from_utf8(body).map_or_else(|error| Body::Base64(error.into_bytes()), Body::Text);
        Legible { status, headers, body }.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<StoredResponse, D::Error> {
        let Legible { status, headers, body } = Legible::deserialize(deserializer)?;
        let body = match body {
            Body::Text(text) => text.into_bytes(),
            Body::Base64(bytes) => bytes,
        };
        Ok(StoredResponse { status, headers, body })
    }
}

mod base64_bytes {
    use base64ct::{Base64, Encoding as _};
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&Base64::encode_string(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(deserializer)?;
        Base64::decode_vec(&text).map_err(D::Error::custom)
    }
}

/// Who may work on a key, and until when.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Lease {
    /// The incarnation of the object that works on it.
    pub holder: InstanceId,
    /// When it may be taken over even from a living holder, in ms since the epoch.
    pub until_ms: u64,
}

impl Lease {
    /// For so long from now as is configured.
    pub fn new<S>(holder: &InstanceId, ctx: &Context<S>) -> Self {
        Self { holder: holder.clone(), until_ms: ctx.now_ms.saturating_add(ctx.times.lease_ms) }
    }
}

/// An unfinished operation.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Open<F: Domain> {
    /// What it does, with everything that it needs.
    pub operation: F::Operation,
    /// How far it came.
    pub recovery_point: RecoveryPoint<F::Point>,
    /// Who works on it now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<Lease>,
    /// When the alarm may take it up, in ms since the epoch, while nobody works on it.
    pub resume_at_ms: u64,
    /// The last sign of life of a run, in ms since the epoch.
    pub last_run_at_ms: u64,
    /// How many runs ended without a result, or broke off.
    pub failures: u32,
    /// How many of the newest runs broke off, one after the other: a run that has left its lease.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub broken_off: u32,
}

impl<F: Domain> Open<F> {
    /// Whether a person should look: it has failed that often. It is tried all the same, again and again.
    pub const fn is_flagged(&self) -> bool {
        self.failures >= FLAGGED_AFTER
    }

    /// Takes the lease back after a run without a result.
    pub(crate) fn release(&mut self, resume_at_ms: u64) {
        (self.lease, self.broken_off) = (None, 0);
        self.failures = self.failures.saturating_add(1);
        self.resume_at_ms = resume_at_ms;
    }

    /// Notes that a run has left its lease. A run that ends by itself gives it back.
    pub(crate) const fn note_broken_off(&mut self) {
        self.failures = self.failures.saturating_add(1);
        self.broken_off = self.broken_off.saturating_add(1);
    }
}

/// A finished operation, whose response can be replayed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Finished {
    /// What everyone gets who asks again.
    #[serde(with = "legible")]
    pub response: StoredResponse,
    /// When it ended, in ms since the epoch.
    pub finished_at_ms: u64,
    /// When the response is dropped, in ms since the epoch.
    pub expires_at_ms: u64,
}

/// What is left of a finished operation after its retention: enough to refuse a late retry.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Tombstone {
    /// The status that was answered.
    pub status: u16,
    /// When it ended, in ms since the epoch.
    pub finished_at_ms: u64,
    /// Until when its response was replayed, in ms since the epoch.
    pub expires_at_ms: u64,
}

/// The states of a key: `Open → Finished → Expired`, never back.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", bound = "")]
pub enum Lifecycle<F: Domain> {
    /// Not ended yet.
    Open(Open<F>),
    /// Ended; the response is replayed.
    Finished(Finished),
    /// Ended long ago; a retry is refused and shown the resource.
    Expired(Tombstone),
}

impl<F: Domain> Lifecycle<F> {
    /// Its name, as stored.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Open(_) => "open",
            Self::Finished(_) => "finished",
            Self::Expired(_) => "expired",
        }
    }
}

/// The record of one key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct KeyRecord<F: Domain> {
    /// Its number within the object, from 1.
    pub key_id: u32,
    /// Stands for the key: the key itself is not stored.
    pub key_hash: KeyHash,
    /// Whose it is.
    pub owner: Owner,
    /// How its client is answered.
    pub channel: Channel,
    /// What the key was first used for; [erased](Fingerprint::erased) with the personal data, which it could be guessed by.
    pub fingerprint: Fingerprint,
    /// The canonical parameters, to name differing fields and to show a form again; dropped at expiry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<Canonical>,
    /// The first request's id, sent with every replay.
    pub original_request: RequestId,
    /// When the key was first seen, in ms since the epoch.
    pub created_at_ms: u64,
    /// The number of the newest run; a run with a smaller one is stale and writes nothing (fencing).
    pub attempt: u32,
    /// How often another request was given the response of the first one, stored or waited for. Not all of
    /// them are written down: see [`Replays`](super::replays::Replays).
    pub replays: u32,
    /// The span that began it, until it expires: a later run belongs to the same trace.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "optional")]
    pub trace: Option<TraceContext>,
    /// Where it stands.
    pub lifecycle: Lifecycle<F>,
}

impl<F: Domain> KeyRecord<F> {
    /// Whether a run of this incarnation works on it now: a lease of another one is dead.
    pub fn is_worked_on(&self, me: &InstanceId, now_ms: u64) -> bool {
        match &self.lifecycle {
            Lifecycle::Open(Open { lease: Some(lease), .. }) => {
                lease.holder == *me && now_ms < lease.until_ms
            }
            _ => false,
        }
    }

    /// When it ended, in ms since the epoch, however long ago.
    pub const fn finished_at_ms(&self) -> Option<u64> {
        match &self.lifecycle {
            Lifecycle::Open(_) => None,
            Lifecycle::Finished(finished) => Some(finished.finished_at_ms),
            Lifecycle::Expired(tombstone) => Some(tombstone.finished_at_ms),
        }
    }

    /// How far it came.
    pub const fn recovery_point(&self) -> RecoveryPoint<F::Point> {
        match &self.lifecycle {
            Lifecycle::Open(open) => open.recovery_point,
            Lifecycle::Finished(_) | Lifecycle::Expired(_) => RecoveryPoint::Finished,
        }
    }
}

/// A key whose operation runs in another object, because what it moves lives there. It stays for good: one key
/// is one request, wherever it is sent.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Binding {
    /// Stands for the key.
    pub key_hash: KeyHash,
    /// Whose it is.
    pub owner: Owner,
    /// What the key was first used for: method and path.
    pub fingerprint: Fingerprint,
    /// The canonical parameters, which older releases kept here for the retention.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<Canonical>,
    /// Where it runs.
    pub object: ObjectId,
    /// When the key was first seen, in ms since the epoch.
    pub bound_at_ms: u64,
}

/// A run's claim: what it must show at every write and before every send.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FencingToken {
    /// The key it works on.
    pub key_id: u32,
    /// Its attempt number.
    pub attempt: u32,
    /// The incarnation in which it runs.
    pub holder: InstanceId,
}
