//! The visitor: a cookie of the gate's own, set with the first page that has a key in it.

use web::http::Request;

use crate::cookies::pairs;

const NAME: &str = "paid_once_visitor";
/// How long a browser keeps it, in seconds: a day longer than a form can be open.
const MAX_AGE_S: u32 = 30 * 24 * 3600;

/// `__Host-` cookies need https.
const fn name(secure: bool) -> &'static str {
    if secure { "__Host-paid_once_visitor" } else { NAME }
}

/// The visitor of a request, if it has one.
pub fn of(request: &Request) -> Option<&str> {
    let well_formed = |value: &str| value.len() == 32 && value.bytes().all(|byte| byte.is_ascii_hexdigit());
    pairs(request.header("cookie")?)
        .find(|(given, value)| *given == name(request.secure()) && well_formed(value))
        .map(|(_, value)| value)
}

/// The `Set-Cookie` header of the visitor, or of a new one. It is set anew with each key: it must live longer than what is sent with that.
///
/// # Errors
/// Where there is no randomness.
pub fn cookie(request: &Request) -> worker::Result<String> {
    let secure = request.secure();
    let flag = if secure { "; Secure" } else { "" };
    let value = match of(request) {
        Some(value) => value.to_owned(),
        None => data_encoding::HEXLOWER.encode(&runtime::random::bytes::<16>()?),
    };
    Ok(format!("{}={value}; Path=/; Max-Age={MAX_AGE_S}; HttpOnly; SameSite=Lax{flag}", name(secure)))
}
