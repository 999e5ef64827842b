//! The browser's session: a random cookie, of which only a hash ever goes further.

use data_encoding::HEXLOWER;

use crate::machine::id::Owner;

/// How long a browser keeps it, in seconds: 30 days.
const MAX_AGE_S: u32 = 30 * 24 * 3600;

/// A session cookie's value: 32 hexadecimal digits.
#[derive(Clone, PartialEq, Eq)]
pub struct Session {
    value: String,
    /// Not sent by the browser: it must be set with the answer.
    pub is_new: bool,
}

impl Session {
    /// A new one, from 16 random bytes.
    pub fn new(random: [u8; 16]) -> Self {
        Self { value: HEXLOWER.encode(&random), is_new: true }
    }

    /// The one in the `Cookie` header. Anything that is not a well-formed value is passed over.
    pub fn from_cookies(header: &str, secure: bool) -> Option<Self> {
        let name = cookie_name(secure);
        let value =
            header.split(';').filter_map(|pair| pair.trim().split_once('=')).find_map(|(n, value)| {
                let well_formed =
                    value.len() == 32 && value.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
                (n == name && well_formed).then_some(value)
            })?;
        Some(Self { value: value.to_owned(), is_new: false })
    }

    /// The `Set-Cookie` header's value.
    pub fn set_cookie(&self, secure: bool) -> String {
        let (name, value) = (cookie_name(secure), &self.value);
        let flag = if secure { "; Secure" } else { "" };
        format!("{name}={value}; Path=/; Max-Age={MAX_AGE_S}; HttpOnly; SameSite=Lax{flag}")
    }

    /// Who it is, everywhere past the edge.
    pub fn owner(&self) -> Owner {
        Owner::session(&self.value)
    }
}

/// `__Host-` cookies need https. On a plain-http localhost browsers and curl keep a plain one.
const fn cookie_name(secure: bool) -> &'static str {
    if secure { "__Host-session" } else { "session" }
}
