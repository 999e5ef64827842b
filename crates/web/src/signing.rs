//! The keys that sign forms, links and sessions: one for each purpose, derived from the secrets in `SIGNING_KEY` by
//! HKDF-SHA256, so that what is signed for one purpose is worth nothing for another.
//!
//! ```text
//! root      = HKDF-Extract("paid-once signing keys", the secret)
//! key       = HKDF-Expand(root, "key of " + purpose, 32)
//! key id    = HKDF-Expand(root, "key id", 4)
//! signature = key id 4 · HMAC-SHA256(key, what is signed) 32
//! ```
//!
//! The key id finds the key at once, among several of a rotation. The first secret signs, all of them verify; one that has an
//! end date (`SECRET@2027-01-31`) still shows what was signed with it after that day, but starts nothing any more.
//!
//! What an older version has signed is 32 bytes without a key id, by an HMAC with the secret itself. It still verifies.

use chrono::{NaiveDate, NaiveTime};
use hmac::digest::CtOutput;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

use crate::hkdf;

const SALT: &[u8] = b"paid-once signing keys";
const ID_LEN: usize = 4;
const MAC_LEN: usize = 32;
/// The length of a signature, in bytes.
pub const SIGNATURE_LEN: usize = ID_LEN + MAC_LEN;
/// The shortest secret, in characters.
pub const SECRET_MIN_LEN: usize = 32;

/// Compares secrets. Takes as long for a wrong one: what is compared are hashes, all of them.
pub fn is_same_secret(given: &str, secret: &str) -> bool {
    let hash = |text: &str| CtOutput::<Sha256>::from(Sha256::digest(text));
    hash(given) == hash(secret)
}

/// What is signed. The number stands in the tokens that name their purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Purpose {
    /// The form of `POST /rides`
    Ride = 1,
    /// The link to an order
    OrderLink = 2,
    /// The form of an order
    OrderForm = 3,
    /// The address to which a bank sends a browser back
    ReturnAddress = 4,
    /// A form of somebody else's page, behind the gate
    GateForm = 5,
    /// A request that the gate itself has passed on
    GatePassedOn = 6,
    /// An operator's session
    DeskSession = 16,
    /// A button of the operator's desk
    DeskAction = 17,
    /// A token of an API account, which the desk makes
    ApiToken = 18,
    /// What a shop is told at its own endpoint
    ShopEvent = 19,
}

impl Purpose {
    const fn info(self) -> &'static [u8] {
        match self {
            Self::Ride => b"key of ride forms",
            Self::OrderLink => b"key of order links",
            Self::OrderForm => b"key of order forms",
            Self::ReturnAddress => b"key of return addresses",
            Self::GateForm => b"key of the gate's forms",
            Self::GatePassedOn => b"key of what the gate has passed on",
            Self::DeskSession => b"key of desk sessions",
            Self::DeskAction => b"key of desk buttons",
            Self::ApiToken => b"key of API tokens",
            Self::ShopEvent => b"key of events for shops",
        }
    }

    /// What came first in all that an older version has signed.
    const fn old_domain(self) -> &'static [u8] {
        match self {
            // No older version has signed any for the gate or for a shop, or made a token.
            Self::Ride
            | Self::DeskSession
            | Self::DeskAction
            | Self::GateForm
            | Self::GatePassedOn
            | Self::ApiToken
            | Self::ShopEvent => b"paid-once form token\0",
            Self::OrderLink => b"paid-once order link\0",
            Self::OrderForm => b"paid-once checkout form\0",
            Self::ReturnAddress => b"paid-once return address\0",
        }
    }
}

/// A secret of `SIGNING_KEY`, and what is derived from it.
#[derive(Clone)]
struct SigningKey {
    secret: String,
    root: [u8; MAC_LEN],
    id: [u8; ID_LEN],
    ends_at_ms: u64,
}

/// `SIGNING_KEY`: one or more secrets, separated by white space.
#[derive(Clone)]
pub struct SigningKeys(Vec<SigningKey>);

impl std::fmt::Debug for SigningKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SigningKeys({})", self.0.len())
    }
}

/// A signature that is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Genuine {
    /// Until when what it signs may start something, in ms since the epoch; after that it only shows.
    pub ends_at_ms: u64,
}

impl SigningKeys {
    /// Reads the setting. The error says what is wrong with it, and quotes nothing.
    pub fn parse(setting: &str) -> Result<Self, &'static str> {
        let mut keys = Vec::new();
        for word in setting.split_whitespace() {
            let (secret, ends_at_ms) = match word.split_once('@') {
                None => (word, u64::MAX),
                Some(_) if keys.is_empty() => {
                    return Err("has an end date for its first key, which is the one that signs");
                }
                Some((secret, date)) => {
                    (secret, start_of_day_ms(date).ok_or("has an end date that is not like 2027-01-31")?)
                }
            };
            if secret.len() < SECRET_MIN_LEN {
                return Err("is too short");
            }
            keys.push(SigningKey::new(secret, ends_at_ms));
        }
        if keys.is_empty() { Err("is empty") } else { Ok(Self(keys)) }
    }

    /// Signs with the first key. All parts but the last must have a fixed length.
    pub fn sign(&self, purpose: Purpose, parts: &[&[u8]]) -> Vec<u8> {
        let signed = self.0.first().and_then(|key| Some((key, key.mac(purpose, parts)?)));
        signed.map_or_else(Vec::new, |(key, mac)| {
            key.id.iter().copied().chain(mac.finalize().into_bytes()).collect()
        })
    }

    /// A secret for somebody else, made of each key that has not ended at `now_ms` (since the epoch), that of the first key first. All parts but
    /// the last must have a fixed length.
    pub fn secrets(&self, purpose: Purpose, parts: &[&[u8]], now_ms: u64) -> Vec<[u8; 32]> {
        let keys = self.0.iter().filter(|key| key.ends_at_ms > now_ms);
        keys.filter_map(|key| Some(key.mac(purpose, parts)?.finalize().into_bytes().into())).collect()
    }

    /// When the first of the older keys ends that have not ended at `now_ms`, both since the epoch; `None` if no such end is known.
    pub fn next_end_ms(&self, now_ms: u64) -> Option<u64> {
        let ends = self.0.iter().map(|key| key.ends_at_ms);
        ends.filter(|ends_at_ms| *ends_at_ms > now_ms && *ends_at_ms < u64::MAX).min()
    }

    /// Whether one of the keys has signed this, compared in constant time.
    pub fn verify(&self, purpose: Purpose, parts: &[&[u8]], signature: &[u8]) -> Option<Genuine> {
        let (id, signature) = signature.split_at_checked(signature.len().checked_sub(MAC_LEN)?)?;
        let is_right = |mac: Option<Hmac<Sha256>>| mac.is_some_and(|mac| mac.verify_slice(signature).is_ok());
        let signed_by = |key: &&SigningKey| match id {
            [] => is_right(key.old_mac(purpose, parts)),
            id => id == key.id && is_right(key.mac(purpose, parts)),
        };
        self.0.iter().find(signed_by).map(|key| Genuine { ends_at_ms: key.ends_at_ms })
    }
}

impl SigningKey {
    fn new(secret: &str, ends_at_ms: u64) -> Self {
        let root = hkdf::extract(SALT, secret.as_bytes());
        let mut id = [0; ID_LEN];
        hkdf::expand(&root, b"key id", &mut id);
        Self { secret: secret.to_owned(), root, id, ends_at_ms }
    }

    fn mac(&self, purpose: Purpose, parts: &[&[u8]]) -> Option<Hmac<Sha256>> {
        let mut key = [0; MAC_LEN];
        hkdf::expand(&self.root, purpose.info(), &mut key);
        mac(&key, parts)
    }

    fn old_mac(&self, purpose: Purpose, parts: &[&[u8]]) -> Option<Hmac<Sha256>> {
        mac(self.secret.as_bytes(), &[&[purpose.old_domain()], parts].concat())
    }
}

fn mac(key: &[u8], parts: &[&[u8]]) -> Option<Hmac<Sha256>> {
    // HMAC takes keys of any length.
    let mut mac = Hmac::<Sha256>::new_from_slice(key).ok()?;
    parts.iter().for_each(|part| mac.update(part));
    Some(mac)
}

/// The beginning of a day in UTC, in ms since the epoch.
fn start_of_day_ms(date: &str) -> Option<u64> {
    let mut parts = date.splitn(3, '-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    let day = NaiveDate::from_ymd_opt(year.parse().ok()?, month.parse().ok()?, day.parse().ok()?)?;
    u64::try_from(day.and_time(NaiveTime::MIN).and_utc().timestamp_millis()).ok()
}
