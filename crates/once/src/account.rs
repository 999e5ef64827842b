//! At which account of a provider a call was sent. A provider's idempotency keys are its account's: the same bytes, sent with a
//! secret of another account, are executed again there.
//!
//! ```text
//!  sent with this credential ──► nothing to ask: send again, look up
//!  the credential has changed ─► asked which account it is of ── the same ► as before, with the new one
//!                                                └── another, or not known ► waits, and a person is told
//! ```
//!
//! It costs nothing while all is well: only a call that did not end with its send learns the id of its account, right after that,
//! and only a changed credential is asked for anything else.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::Sha256;

use super::skip::{is_false, is_zero};

/// Stands for a way to a provider: its address and the secret, of which it tells nothing, and whether it is live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Credential {
    /// The secret and the address, hashed.
    pub print: u64,
    /// What is done is real; else a test.
    pub live: bool,
}

impl Credential {
    /// Of a secret and what else must be the same: the address, the account. All of it is known to both sides, so where there is
    /// no secret that decides, this is only a name.
    pub fn of(secret: &str, rest: &[&str], live: bool) -> Self {
        let mut print = [0; 8];
        if let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret.as_bytes()) {
            for part in rest {
                mac.update(part.as_bytes());
                mac.update(b"\n");
            }
            print.iter_mut().zip(mac.finalize().into_bytes()).for_each(|(to, from)| *to = from);
        }
        Self { print: u64::from_be_bytes(print), live }
    }

    fn parse(text: &str) -> Option<Self> {
        let (mode, print) = text.split_once(':')?;
        let live = match mode {
            "live" => true,
            "test" => false,
            _ => return None,
        };
        Some(Self { print: u64::from_str_radix(print, 16).ok()?, live })
    }
}

impl fmt::Display for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{:016x}", if self.live { "live" } else { "test" }, self.print)
    }
}

impl Serialize for Credential {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Credential {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom("not a credential's name"))
    }
}

/// Where a call was sent to, or must be sent to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SentTo {
    /// With which credential: of its account this call is.
    pub credential: Credential,
    /// The provider's id of that account, once it was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// After how many sends it was last asked for.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub asked_after: u32,
    /// It is being asked: this takes the place of the next look-up.
    #[serde(default, skip_serializing_if = "is_false")]
    pub asking: bool,
    /// Why it must not go on with the credential that is configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub away: Option<String>,
}

impl SentTo {
    /// With this credential.
    pub const fn new(credential: Credential) -> Self {
        Self { credential, account: None, asked_after: 0, asking: false, away: None }
    }

    /// The same account, for another call.
    pub fn again(&self) -> Self {
        Self { account: self.account.clone(), ..Self::new(self.credential) }
    }

    /// Whether the credential of its provider is another one `now`. Where there is none at all nothing can be sent.
    pub fn has_changed(&self, now: Option<Credential>) -> bool {
        now.is_some_and(|now| now != self.credential)
    }

    /// Takes in which account the configured credential is of. Gives whether that is this one; `None` if that is still to be
    /// found out.
    pub fn take(&mut self, identity: Identity, now: Credential) -> Option<bool> {
        let is_changed = now != self.credential;
        let away = match identity {
            Identity::Account(id) if !is_changed => {
                self.account = Some(id);
                None
            }
            Identity::Account(id) => match &self.account {
                Some(known) if *known == id && now.live == self.credential.live => None,
                Some(known) => Some(format!(
                    "it was sent to account {} and the configured key is of {}: nothing is sent until a key of the first one is set",
                    named(known, self.credential.live),
                    named(&id, now.live),
                )),
                None => Some(format!(
                    "it was sent with another key, whose account is not known, and the configured one is of {}: set the first key \
                     again",
                    named(&id, now.live),
                )),
            },
            Identity::SeesIt => None,
            Identity::SeesNothing => Some(
                "what it is about is not in the account of the configured key: nothing is sent until a key of its account is set"
                    .to_owned(),
            ),
            Identity::Refused { status: 401 } if is_changed => {
                Some("it was sent with another key, and the provider refuses the configured one (401)".to_owned())
            }
            Identity::Refused { status } if is_changed => Some(format!(
                "it was sent with another key, and the configured one may not say of which account it is ({status}): allow it to \
                 read the account"
            )),
            Identity::NotAsked if is_changed => {
                Some("it was sent to another address of the provider: set that one again".to_owned())
            }
            Identity::Refused { .. } | Identity::NotAsked | Identity::Silent => {
                return (!is_changed).then_some(true);
            }
        };
        if away.is_none() {
            self.credential = now;
        }
        self.away = away;
        Some(self.away.is_none())
    }
}

fn named(account: &str, live: bool) -> String {
    format!("{account} ({})", if live { "live" } else { "test" })
}

/// What was found out about the account of the configured credential.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Identity {
    /// The provider's id of it.
    Account(String),
    /// What the call is about is in it.
    SeesIt,
    /// What the call is about is not in it.
    SeesNothing,
    /// It may not be asked.
    Refused {
        /// The HTTP status.
        status: u16,
    },
    /// The provider has nothing to ask.
    NotAsked,
    /// There was no answer.
    Silent,
}
