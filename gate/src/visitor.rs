//! The visitor: a cookie of the gate's own, set with each page that has a key in it.

use web::http::Request;
use web::session::{cookies, set_cookie};

const NAME: &str = "paid_once_visitor";
/// How long a browser keeps it after the last key, in seconds: longer than a form can be open.
const MAX_AGE_S: u32 = 30 * 24 * 3600;

/// Whose page has sent a request, as browsers say it: in `Sec-Fetch-Site`, or else in `Origin`, which is `null` also where a page of this site asks to be
/// named to nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    /// A page of this site; or what is no browser, and says nothing.
    ThisSite,
    /// No page: somebody has typed the address, or loaded it again.
    Nobody,
    /// A page of another host of the same domain.
    SameDomain,
    /// A page of another site.
    OtherSite,
}

impl Sender {
    /// Of a request.
    pub fn of(request: &Request) -> Self {
        match request.header("sec-fetch-site") {
            Some("same-origin") => Self::ThisSite,
            Some("none") => Self::Nobody,
            Some("cross-site") => Self::OtherSite,
            Some(_) => Self::SameDomain,
            None if request.header("origin").is_none_or(|origin| origin == request.origin()) => {
                Self::ThisSite
            }
            None => Self::OtherSite,
        }
    }
}

/// The visitor of a request, if it has one.
pub fn of(request: &Request) -> Option<&str> {
    let well_formed = |value: &&str| value.len() == 32 && value.bytes().all(|byte| byte.is_ascii_hexdigit());
    cookies(request.header("cookie")?, NAME, request.secure()).find(well_formed)
}

/// Whether a request may be a visitor's though it has no cookie: a browser sends none with a form that another site's page posts. A new one would take
/// the place of theirs, under which they have sent forms.
pub fn is_unsure(request: &Request) -> bool {
    let is_cross_site = || Sender::of(request) == Sender::OtherSite;
    of(request).is_none() && !matches!(request.method.as_str(), "GET" | "HEAD") && is_cross_site()
}

/// Whether a form that was sent before may be answered as it was then. Who has no cookie shares the keys of all who have none: there a page of
/// another site could have a form sent again by anybody's browser, which would take over the session that its answer sets (login CSRF).
pub fn may_be_answered(request: &Request) -> bool {
    of(request).is_some() || Sender::of(request) == Sender::ThisSite
}

/// The `Set-Cookie` header of the visitor, or of a new one. It is set anew with each key: it must live longer than what is sent with that.
///
/// # Errors
/// Where there is no randomness.
pub fn cookie(request: &Request) -> worker::Result<String> {
    let value = match of(request) {
        Some(value) => value.to_owned(),
        None => data_encoding::HEXLOWER.encode(&runtime::random::bytes::<16>()?),
    };
    Ok(set_cookie(NAME, &value, MAX_AGE_S, request.secure()))
}
