//! The visitor: a cookie of the gate's own, set with each page that has a key in it.

use web::http::Request;
use web::session::{cookies, set_cookie};

const NAME: &str = "paid_once_visitor";
/// How long a browser keeps it after the last key, in seconds: longer than a form can be open.
const MAX_AGE_S: u32 = 30 * 24 * 3600;

/// The visitor of a request, if it has one.
pub fn of(request: &Request) -> Option<&str> {
    let well_formed = |value: &&str| value.len() == 32 && value.bytes().all(|byte| byte.is_ascii_hexdigit());
    cookies(request.header("cookie")?, NAME, request.secure()).find(well_formed)
}

/// Whether a request may be a visitor's though it has no cookie: a browser sends none with a form that another site's page posts. A new one would take
/// the place of theirs, under which they have sent forms.
pub fn is_unsure(request: &Request) -> bool {
    let is_cross_site = || match request.header("sec-fetch-site") {
        Some(site) => site == "cross-site",
        None => request.header("origin").is_some_and(|origin| origin != request.origin()),
    };
    of(request).is_none() && !matches!(request.method.as_str(), "GET" | "HEAD") && is_cross_site()
}

/// Whether a form that was sent before may be answered as it was then. Who has no cookie shares the keys of all who have none: there a page of
/// another site could have a form sent again by anybody's browser, which would take over the session that its answer sets (login CSRF).
pub fn may_be_answered(request: &Request) -> bool {
    let is_from_here = || match request.header("sec-fetch-site") {
        Some(site) => site == "same-origin",
        None => request.header("origin").is_none_or(|origin| origin == request.origin()),
    };
    of(request).is_some() || is_from_here()
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
