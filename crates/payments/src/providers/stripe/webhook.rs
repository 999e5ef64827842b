//! Stripe's events. <https://docs.stripe.com/webhooks>

use hmac::{Hmac, KeyInit, Mac};
use serde::Deserialize;
use sha2::Sha256;

use crate::payment::id::object_of;
use crate::payment::provider::Provider;
use crate::payment::provider_event::{Event, EventKind};
use once::id::ObjectId;

/// How old a signature may be, or how far in the future by another clock, in s.
const TOLERANCE_S: u64 = 300;
/// The length of an HMAC-SHA256, in bytes.
const SIGNATURE_LEN: usize = 32;

/// Why an event is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// No `Stripe-Signature`, or one of another form.
    NoSignature,
    /// Signed too long ago, or too far in the future.
    Stale,
    /// Not signed with a secret of ours.
    Forged,
}

/// The `Stripe-Signature` header.
///
/// Source: <https://docs.stripe.com/webhooks#verify-manually>. Several `v1` are compared (a secret is being rolled there),
/// with several secrets (it is being rolled here); `v0` is for tests of Stripe's own and counts for nothing.
pub struct Signature<'a> {
    signed_at: &'a str,
    at_s: u64,
    signatures: Vec<Vec<u8>>,
}

impl<'a> Signature<'a> {
    /// Reads the header: a time, and at least one signature that could be right.
    pub fn parse(header: &'a str) -> Result<Self, Refused> {
        let mut signed_at = None;
        let mut signatures = Vec::new();
        for part in header.split(',') {
            match part.trim().split_once('=') {
                Some(("t", text)) => signed_at = signed_at.or(Some(text)),
                Some(("v1", hex)) => signatures.extend(base16ct::lower::decode_vec(hex).ok()),
                _ => {}
            }
        }
        let signed_at = signed_at.ok_or(Refused::NoSignature)?;
        let at_s = signed_at.parse().map_err(|_| Refused::NoSignature)?;
        signatures.retain(|signature| signature.len() == SIGNATURE_LEN);
        if signatures.is_empty() {
            return Err(Refused::NoSignature);
        }
        Ok(Self { signed_at, at_s, signatures })
    }

    /// Whether one of the secrets has signed the raw body, at about `now_ms` (since the epoch).
    pub fn verify(&self, secrets: &[String], body: &[u8], now_ms: u64) -> Result<(), Refused> {
        let is_right = secrets.iter().any(|secret| {
            let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret.as_bytes()) else { return false };
            mac.update(self.signed_at.as_bytes());
            mac.update(b".");
            mac.update(body);
            self.signatures.iter().any(|signature| mac.clone().verify_slice(signature).is_ok())
        });
        if !is_right {
            return Err(Refused::Forged);
        }
        // Only now: whoever cannot sign learns nothing about our clock.
        if (now_ms / 1000).abs_diff(self.at_s) > TOLERANCE_S {
            return Err(Refused::Stale);
        }
        Ok(())
    }
}

/// What an event tells, and whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    /// For the object.
    pub event: Event,
    /// The object, if the event names one of our resources.
    pub object: Option<ObjectId>,
    /// Stripe's id of the PaymentIntent, if it names one: by it the read model finds the object.
    pub payment: Option<String>,
    /// Whether it is about real money, if it says so.
    pub live: Option<bool>,
}

impl Read {
    /// Whether it happened in this mode: in the other one an object can carry the same metadata, and be nothing of ours.
    pub fn is_of_mode(&self, live: bool) -> bool {
        self.live.is_none_or(|told| told == live)
    }
}

#[derive(Deserialize)]
struct Body {
    id: String,
    #[serde(rename = "type")]
    kind: String,
    /// What kind of event it is: [thin ones](https://docs.stripe.com/webhooks?snapshot-or-thin=thin) carry no object.
    #[serde(default)]
    object: Option<String>,
    /// Of a thin one: what it is about.
    #[serde(default)]
    related_object: Option<Related>,
    /// Of a thin one: the account.
    #[serde(default)]
    context: Option<String>,
    #[serde(default)]
    data: Data,
    #[serde(default)]
    account: Option<String>,
    #[serde(default)]
    livemode: Option<bool>,
}

#[derive(Deserialize)]
struct Related {
    id: String,
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Default, Deserialize)]
struct Data {
    #[serde(default)]
    object: Option<Object>,
}

#[derive(Default, Deserialize)]
struct Object {
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    object: Option<String>,
    #[serde(default)]
    payment_intent: Option<serde_json::Value>,
    #[serde(default)]
    metadata: Option<Metadata>,
}

#[derive(Default, Deserialize)]
struct Metadata {
    #[serde(default)]
    resource: Option<String>,
    #[serde(default)]
    payment: Option<String>,
    #[serde(default)]
    idempotency_key: Option<String>,
}

/// Why a body whose signature is right is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// It is no event.
    NoEvent,
    /// A thin event about a charge, a dispute or a refund: it does not say of which payment.
    Thin,
}

/// Reads a body whose signature is right. A thin event about a payment says as much as any other: that there is something to ask. One about nothing
/// that moves money here is taken, and nothing comes of it.
pub fn read(body: &[u8]) -> Result<Read, Unreadable> {
    // Its signature is over the bytes: a character that is cut in two where nobody reads it is no reason to refuse it.
    let body = json_text::from_str(&String::from_utf8_lossy(body));
    let Body { id, kind, object, related_object, context, data, account, livemode } =
        body.map_err(|_| Unreadable::NoEvent)?;
    let is_thin = object.is_some_and(|object| object == "v2.core.event");
    let object = match data.object {
        Some(object) => object,
        None if is_thin => related_object.map_or_else(|| Ok(Object::default()), Related::into_object)?,
        None => return Err(Unreadable::NoEvent),
    };
    let account = account.or(context.filter(|_| is_thin));
    let metadata = object.metadata.unwrap_or_default();
    let provider_key = metadata.idempotency_key;
    let ours = [metadata.resource, metadata.payment].into_iter().flatten().find_map(|id| object_of(&id));
    let what = object.object.as_deref().unwrap_or_default();
    let payment = match what {
        "payment_intent" => object.id.clone(),
        // An id, or the whole of it where it is expanded.
        _ => match object.payment_intent {
            Some(serde_json::Value::String(id)) => Some(id),
            Some(other) => other.get("id").and_then(|id| id.as_str()).map(str::to_owned),
            None => None,
        },
    };
    let news = match what {
        "payment_intent" | "charge" | "dispute" => {
            EventKind::Ask { refund: None, payment: payment.clone(), provider_key }
        }
        "refund" => EventKind::Ask { refund: object.id, payment: None, provider_key },
        _ => EventKind::Other,
    };
    let event = Event { event_id: id, provider: Provider::Stripe, account, kind, news, is_unwritten: false };
    Ok(Read { event, object: ours, payment, live: livemode })
}

impl Related {
    fn into_object(self) -> Result<Object, Unreadable> {
        match self.kind.as_str() {
            "payment_intent" => {
                Ok(Object { id: Some(self.id), object: Some(self.kind), ..Object::default() })
            }
            "charge" | "dispute" | "refund" => Err(Unreadable::Thin),
            _ => Ok(Object::default()),
        }
    }
}
