//! The browser's cookies: its session, of which only a hash ever goes further, and the form that it has open.

use uuid::Uuid;

use once::id::Owner;

/// How long a browser keeps it, in seconds: 30 days.
const MAX_AGE_S: u32 = 30 * 24 * 3600;

/// A session cookie's value: a UUID, as 32 hexadecimal digits. Older sessions have 32 others.
#[derive(Clone, PartialEq, Eq)]
pub struct Session {
    value: String,
    /// Not sent by the browser: it must be set with the answer.
    pub is_new: bool,
}

impl Session {
    /// A new one. The id must not be guessed: whoever has it is the session.
    pub fn new(id: Uuid) -> Self {
        Self { value: id.simple().to_string(), is_new: true }
    }

    /// The one in the `Cookie` header. Anything that is not a well-formed value is passed over.
    pub fn from_cookies(header: &str, secure: bool) -> Option<Self> {
        let well_formed =
            |v: &&str| v.len() == 32 && v.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        let value = cookies(header, "session", secure).find(well_formed)?;
        Some(Self { value: value.to_owned(), is_new: false })
    }

    /// The `Set-Cookie` header's value.
    pub fn set_cookie(&self, secure: bool) -> String {
        set_cookie("session", &self.value, MAX_AGE_S, secure)
    }

    /// Who it is, everywhere past the edge.
    pub fn owner(&self) -> Owner {
        Owner::session(&self.value)
    }
}

/// The key of the form that a browser has open.
///
/// A reload or a Back must not bring a form with another key: paying that one would be a second charge. So the browser
/// keeps the key until it expires, or another booking is asked for once the first is over.
pub struct OpenForm;

impl OpenForm {
    /// The token in the `Cookie` header, not yet verified.
    pub fn from_cookies(header: &str, secure: bool) -> Option<&str> {
        cookies(header, "form", secure).find(|value| !value.is_empty())
    }

    /// The `Set-Cookie` header's value that keeps a token for as long as it may be used, in ms.
    pub fn set_cookie(token: &str, ttl_ms: u64, secure: bool) -> String {
        set_cookie("form", token, u32::try_from(ttl_ms / 1000).unwrap_or(u32::MAX), secure)
    }

    /// The `Set-Cookie` header's value that forgets it.
    pub fn clear_cookie(secure: bool) -> String {
        set_cookie("form", "", 0, secure)
    }
}

/// An operator's session. No other site's page can make a browser send it.
pub struct DeskSession;

impl DeskSession {
    /// The token in the `Cookie` header, not yet verified.
    pub fn from_cookies(header: &str, secure: bool) -> Option<&str> {
        cookies(header, "desk", secure).find(|value| !value.is_empty())
    }

    /// The `Set-Cookie` header's value that keeps a token for as long as it may be used, in ms.
    pub fn set_cookie(token: &str, ttl_ms: u64, secure: bool) -> String {
        let max_age_s = u32::try_from(ttl_ms / 1000).unwrap_or(u32::MAX);
        set_cookie("desk", token, max_age_s, secure).replace("SameSite=Lax", "SameSite=Strict")
    }

    /// The `Set-Cookie` header's value that forgets it.
    pub fn clear_cookie(secure: bool) -> String {
        Self::set_cookie("", 0, secure)
    }
}

/// `__Host-` cookies need https. On a plain-http localhost browsers and curl keep a plain one.
const fn prefix(secure: bool) -> &'static str {
    if secure { "__Host-" } else { "" }
}

/// The names and values of a `Cookie` header.
pub fn pairs(header: &str) -> impl Iterator<Item = (&str, &str)> {
    header.split(';').filter_map(|pair| pair.trim().split_once('='))
}

/// The values of a cookie of ours.
pub fn cookies<'a>(header: &'a str, name: &'static str, secure: bool) -> impl Iterator<Item = &'a str> {
    pairs(header)
        .filter(move |(full, _)| full.strip_prefix(prefix(secure)) == Some(name))
        .map(|(_, value)| value)
}

/// The `Set-Cookie` header's value of a cookie of ours, which no script reads.
pub fn set_cookie(name: &str, value: &str, max_age_s: u32, secure: bool) -> String {
    let flag = if secure { "; Secure" } else { "" };
    format!("{}{name}={value}; Path=/; Max-Age={max_age_s}; HttpOnly; SameSite=Lax{flag}", prefix(secure))
}
