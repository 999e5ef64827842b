//! The key that is written into a form: random, minted by the gate, signed, and bound to neither visitor nor address. What it is worth to
//! whom is decided by the name of the object, which is made of the visitor and the key: a stranger with a copy names an object of their own.
//!
//! ```text
//! base64url( version 1 · random 16 · minted_at_ms 6 · signature of all that 36 )
//! ```

use data_encoding::BASE64URL_NOPAD;
use web::signing::{Purpose, SigningKeys};

const VERSION: u8 = 1;
const RANDOM_LEN: usize = 16;
const SIGNED_LEN: usize = 1 + RANDOM_LEN + 6;
const SIGNATURE_LEN: usize = 36;

/// The name of the input, and of the member of a JSON body.
pub const FIELD: &str = "paid_once_key";

/// A key that this gate has minted.
#[derive(Clone, PartialEq, Eq)]
pub struct FormKey {
    text: String,
    /// When it was minted, in ms since the epoch.
    pub minted_at_ms: u64,
    /// It is signed by a secret of today.
    pub is_signed: bool,
}

impl FormKey {
    /// A new one.
    pub fn mint(random: [u8; RANDOM_LEN], now_ms: u64, keys: &SigningKeys) -> Self {
        let mut bytes = vec![VERSION];
        bytes.extend(random);
        bytes.extend(now_ms.to_be_bytes().iter().skip(2));
        bytes.extend(keys.sign(Purpose::GateForm, &[&bytes]));
        Self { text: BASE64URL_NOPAD.encode(&bytes), minted_at_ms: now_ms, is_signed: true }
    }

    /// From its text; `None` if it is none. One that is not signed by these secrets begins nothing, and what was done under it is found. So it is with
    /// one by a secret that is not here any more, or, while a new one is rolled out, not yet. The time in it then selects among what the visitor has
    /// done, and nothing else.
    pub fn open(text: &str, keys: &SigningKeys) -> Option<Self> {
        let bytes = BASE64URL_NOPAD.decode(text.trim().as_bytes()).ok()?;
        let (signed, signature) = bytes.split_at_checked(SIGNED_LEN)?;
        if signed.first() != Some(&VERSION) || signature.len() != SIGNATURE_LEN {
            return None;
        }
        let mut minted_at = [0; 8];
        let time = signed.get(1 + RANDOM_LEN..)?;
        minted_at.iter_mut().skip(2).zip(time).for_each(|(to, from)| *to = *from);
        let is_signed = keys.verify(Purpose::GateForm, &[signed], signature).is_some();
        Some(Self { text: text.trim().to_owned(), minted_at_ms: u64::from_be_bytes(minted_at), is_signed })
    }

    /// As it stands in the form.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl std::fmt::Debug for FormKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FormKey(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(secret: &str) -> SigningKeys {
        SigningKeys::parse(&secret.repeat(32)).unwrap()
    }

    #[test]
    fn a_key_is_opened_by_the_gate_that_minted_it_and_by_no_other() {
        let key = FormKey::mint([7; 16], 1_790_000_000_123, &keys("a"));
        assert_eq!(FormKey::open(key.as_str(), &keys("a")), Some(key.clone()));
        assert_eq!(FormKey::open(&format!(" {}\n", key.as_str()), &keys("a")), Some(key.clone()));
        assert_eq!(key.minted_at_ms, 1_790_000_000_123);
        assert_eq!(key.as_str().len(), 79);
    }

    #[test]
    fn a_key_by_another_secret_is_known_not_to_be_signed() {
        let key = FormKey::mint([7; 16], 1_790_000_000_123, &keys("a"));
        let opened = FormKey::open(key.as_str(), &keys("b")).unwrap();
        assert_eq!(opened, FormKey { is_signed: false, ..key });
    }

    #[test]
    fn no_other_text_is_a_key_that_begins_anything() {
        let key = FormKey::mint([7; 16], 1_790_000_000_123, &keys("a"));
        for at in 0..key.as_str().len() - 1 {
            let mut text = key.as_str().to_owned().into_bytes();
            text[at] = if text[at] == b'A' { b'B' } else { b'A' };
            let opened = FormKey::open(&String::from_utf8(text).unwrap(), &keys("a"));
            assert!(!opened.is_some_and(|key| key.is_signed), "{at}");
        }
        for text in ["", "x", &"A".repeat(79), &key.as_str()[..76]] {
            assert_eq!(FormKey::open(text, &keys("a")), None);
        }
    }
}
