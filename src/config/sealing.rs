//! `CREDENTIALS_KEY`: the key under which the accounts' own keys are sealed. Only this Worker has it.

use std::fmt;
use std::rc::Rc;

use base64ct::{Base64, Encoding as _};
use messages::credentials::CredentialKind;
use once::id::digest;
use runtime::aes_gcm;
use serde::Serialize;

/// One key, or two while one replaces the other: the first seals, both open.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct CredentialsKeys(Rc<[Key]>);

#[derive(Clone, PartialEq, Eq)]
struct Key {
    name: String,
    bytes: [u8; 32],
}

/// What is sealed, as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Sealed {
    /// In base64.
    #[serde(rename = "sealed")]
    pub(crate) text: String,
    /// The name of the key.
    #[serde(rename = "sealed_with")]
    pub(crate) with: String,
}

impl fmt::Debug for CredentialsKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CredentialsKeys({})", self.0.len())
    }
}

impl CredentialsKeys {
    /// Reads the setting: 32 bytes in base64; two of them with white space between.
    pub fn read(setting: Option<&str>) -> Result<Self, String> {
        let wrong = || {
            "CREDENTIALS_KEY must be 32 bytes in base64 (`openssl rand -base64 32`); two with a space between while one replaces the \
             other, the new one first."
                .to_owned()
        };
        let mut keys = Vec::new();
        for word in setting.unwrap_or_default().split_whitespace() {
            let bytes = Base64::decode_vec(word).map_err(|_| wrong())?;
            let bytes: [u8; 32] = bytes.try_into().map_err(|_| wrong())?;
            let mut name = base16ct::lower::encode_string(&digest(&[b"credentials key", &bytes]));
            name.truncate(8);
            keys.push(Key { name, bytes });
        }
        if keys.len() > 2 {
            return Err(wrong());
        }
        Ok(Self(keys.into()))
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The name of the key that seals, and of the one that it replaces, while there are two.
    pub(crate) fn replaced(&self) -> Option<(&str, &str)> {
        match &*self.0 {
            [new, old] => Some((&new.name, &old.name)),
            _ => None,
        }
    }

    /// Seals a key of an account.
    pub(crate) async fn seal(
        &self,
        account: &str,
        kind: CredentialKind,
        value: &str,
    ) -> worker::Result<Sealed> {
        let no_key = || worker::Error::RustError("CREDENTIALS_KEY is not set".to_owned());
        let key = self.0.first().ok_or_else(no_key)?;
        let sealed = aes_gcm::seal(&key.bytes, value.as_bytes(), &place(account, kind)).await?;
        Ok(Sealed { text: Base64::encode_string(&sealed), with: key.name.clone() })
    }

    /// Opens it, if it was sealed for this account and kind with one of the keys.
    pub(crate) async fn open(&self, account: &str, kind: CredentialKind, sealed: &str) -> Option<String> {
        let bytes = Base64::decode_vec(sealed).ok()?;
        for key in self.0.iter() {
            if let Some(value) = aes_gcm::open(&key.bytes, &bytes, &place(account, kind)).await {
                return String::from_utf8(value).ok();
            }
        }
        None
    }
}

/// Where it belongs: it opens nowhere else. An id has no line break.
fn place(account: &str, kind: CredentialKind) -> Vec<u8> {
    format!("{account}\n{}", kind.as_str()).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(setting: &str) -> Result<CredentialsKeys, String> {
        CredentialsKeys::read(Some(setting))
    }

    #[test]
    fn one_key_or_two_are_read_and_never_shown() {
        let (one, other) = (Base64::encode_string(&[1; 32]), Base64::encode_string(&[2; 32]));
        assert!(CredentialsKeys::read(None).unwrap().is_empty());
        let keys = read(&format!("{one}\n{other}")).unwrap();
        let (new, old) = keys.replaced().unwrap();
        assert_ne!(new, old);
        assert_eq!(read(&one).unwrap().replaced(), None);
        let turned = read(&format!("{other} {one}")).unwrap();
        assert_eq!(turned.replaced(), Some((old, new)), "the first seals");
        assert_eq!(format!("{keys:?}"), "CredentialsKeys(2)");
        for wrong in [&one[..40], "a key", &Base64::encode_string(&[1; 31]), &format!("{one} {one} {one}")] {
            assert!(read(wrong).unwrap_err().contains("openssl"), "{wrong}");
        }
    }
}
