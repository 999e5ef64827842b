//! The idempotency key as a client sends it.

use std::fmt;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::id::{Owner, digest};
use super::structured;

/// The longest key that is accepted, in characters; Stripe's limit too.
pub const KEY_MAX_LEN: usize = 255;

/// A key that may be used: 1 to 255 visible ASCII characters, after unquoting.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct IdempotencyKey(String);

/// Why a key is not acceptable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyError {
    /// Nothing between the quotes, or an empty value.
    Empty,
    /// More than [`KEY_MAX_LEN`] characters.
    TooLong,
    /// A character that is not visible ASCII (0x21 to 0x7E).
    BadCharacter,
    /// It begins with a quote but is not one complete RFC 8941 Item: a String, and perhaps parameters.
    BadQuoting,
    /// The header came twice with different values, or differs from the form's hidden field.
    Conflicting,
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "The idempotency key is empty. Send 1 to 255 visible ASCII characters, for example a UUID.",
            Self::TooLong => "The idempotency key is longer than 255 characters. A UUID is enough.",
            Self::BadCharacter => {
                "The idempotency key has a character that is not visible ASCII (0x21 to 0x7E). A UUID is a good key."
            }
            Self::BadQuoting => {
                "The idempotency key begins with a quote but is not one complete string. \
                 Send it as \"key\" (RFC 8941) or without any quotes."
            }
            Self::Conflicting => {
                "Two different idempotency keys came with this request. Send one key, in the header or in the form."
            }
        })
    }
}

impl std::error::Error for KeyError {}

/// What may stand around a header's value, and around the commas between several.
const BLANK: [char; 2] = [' ', '\t'];

impl IdempotencyKey {
    /// Parses a header's value: an RFC 8941 Item whose value is a String in quotes, as
    /// [draft-ietf-httpapi-idempotency-key-header-07](https://datatracker.ietf.org/doc/html/draft-ietf-httpapi-idempotency-key-header-07)
    /// has it, or the bare key that Stripe's clients send. The draft defines no parameters of the Item: they are read and
    /// ignored. A bare key has none, it is taken as it stands.
    ///
    /// ```
    /// use once::key::{IdempotencyKey, KeyError};
    ///
    /// assert_eq!(IdempotencyKey::parse("\"8e03978e\"").unwrap().as_str(), "8e03978e");
    /// assert_eq!(IdempotencyKey::parse("8e03978e").unwrap().as_str(), "8e03978e");
    /// assert_eq!(IdempotencyKey::parse("\"\""), Err(KeyError::Empty));
    /// ```
    pub fn parse(value: &str) -> Result<Self, KeyError> {
        let value = value.trim_matches(BLANK);
        if !value.starts_with('"') {
            return Self::checked(value.to_owned());
        }
        match structured::string_item(value) {
            Some((key, "")) => Self::checked(key),
            _ => Err(KeyError::BadQuoting),
        }
    }

    /// Tells the lines of a header apart. Whoever joins repeated ones puts a comma between them, and spaces or none
    /// ([RFC 9110, 5.3](https://www.rfc-editor.org/rfc/rfc9110#section-5.3)); the runtime one. No key has a space in it, but a parameter of an Item
    /// may. A bare key may have a comma: one that is the same text before and after each is that text, sent several times.
    ///
    /// ```
    /// use once::key::IdempotencyKey;
    ///
    /// assert_eq!(IdempotencyKey::lines("8e03978e,8e03978e"), ["8e03978e", "8e03978e"]);
    /// assert_eq!(IdempotencyKey::lines("order-1,2"), ["order-1,2"]);
    /// ```
    pub fn lines(joined: &str) -> Vec<&str> {
        let mut lines = Vec::new();
        let mut rest = joined;
        loop {
            let item_len = structured::string_item(rest).map_or(0, |(_, after)| rest.len() - after.len());
            let after = rest.get(item_len..).unwrap_or_default();
            let next = after.trim_start_matches(BLANK);
            // Nothing else follows an Item. A bare key may have a comma.
            let comma = match next.starts_with(',') {
                true if item_len > 0 => Some(after.len() - next.len()),
                _ => after.find(", "),
            };
            let Some((line, more)) = comma.and_then(|at| rest.split_at_checked(item_len + at)) else {
                push_line(&mut lines, rest);
                return lines;
            };
            push_line(&mut lines, line);
            rest = more.strip_prefix(',').unwrap_or(more).trim_start_matches(BLANK);
        }
    }

    /// Whether it is an integer of 64 bits in decimal digits. Firefox makes such keys by itself.
    pub fn is_64_bit_number(&self) -> bool {
        self.0.bytes().all(|byte| byte.is_ascii_digit()) && self.0.parse::<u64>().is_ok()
    }

    /// Parses all the places where a key may stand: every header line and the form's hidden field. They must agree.
    /// `None` where there is no key at all.
    pub fn from_sources<'a>(sources: impl IntoIterator<Item = &'a str>) -> Result<Option<Self>, KeyError> {
        let mut found: Option<Self> = None;
        for source in sources {
            let key = Self::parse(source)?;
            match &found {
                Some(first) if *first != key => return Err(KeyError::Conflicting),
                _ => found = Some(key),
            }
        }
        Ok(found)
    }

    fn checked(key: String) -> Result<Self, KeyError> {
        if key.is_empty() {
            Err(KeyError::Empty)
        } else if !key.bytes().all(|b| (0x21..=0x7e).contains(&b)) {
            Err(KeyError::BadCharacter)
        } else if key.len() > KEY_MAX_LEN {
            Err(KeyError::TooLong)
        } else {
            Ok(Self(key))
        }
    }

    /// The key itself. Never log or store it: store its [`hash`](Self::hash).
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What is stored and logged in the key's place; scoped by owner, so that equal keys of two accounts differ.
    pub fn hash(&self, owner: &Owner) -> KeyHash {
        KeyHash(base16ct::lower::encode_string(&digest(&[
            b"key",
            owner.to_text().as_bytes(),
            self.0.as_bytes(),
        ])))
    }
}

/// Adds a line of a header. A bare one that is the same text between its commas is as many lines.
fn push_line<'a>(lines: &mut Vec<&'a str>, line: &'a str) {
    let line = line.trim_matches(BLANK);
    let parts = || line.split(',').map(|part| part.trim_matches(BLANK));
    let first = parts().next().unwrap_or_default();
    let is_repeated = !first.is_empty() && !line.starts_with('"') && parts().all(|part| part == first);
    if is_repeated {
        lines.extend(parts());
    } else {
        lines.push(line);
    }
}

/// A key of ours, for a request that came without one.
impl From<Uuid> for IdempotencyKey {
    fn from(id: Uuid) -> Self {
        Self(id.to_string())
    }
}

impl fmt::Debug for IdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("IdempotencyKey(…)")
    }
}

/// SHA-256 of owner and key, in hexadecimal: what stands for a key in rows, names and logs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct KeyHash(pub String);

impl KeyHash {
    /// The name of the Durable Object that holds an API key.
    pub fn object_name(&self) -> String {
        format!("key:{}", self.0)
    }

    /// Enough of it to find a line in the log.
    pub fn short(&self) -> &str {
        self.0.get(..16).unwrap_or(&self.0)
    }
}
