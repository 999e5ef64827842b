//! Who calls, and for which account: any test-mode secret key. <https://docs.stripe.com/api/authentication>
//!
//! A key such as `sk_test_acct_B_1` is of the account `acct_B`; every key of one account sees the same. Any other key is of
//! [`DEFAULT_ACCOUNT`]. `Stripe-Account: acct_B` acts for that account, as a platform does for one that is connected to it.
//! <https://docs.stripe.com/connect/authentication>
//!
//! The key is looked at and forgotten: it is never stored, logged or repeated. Live keys are refused, so that none is pasted here by mistake.

use crate::http::Request;
use crate::stripe::errors::{ApiError, ErrorType, Failure, Outcome, no_access};

/// The account of every key that names none.
pub const DEFAULT_ACCOUNT: &str = "acct_simulator";

/// The account that a request acts for, by its `Authorization` header (Bearer, or Basic with the key as the user name, as curl
/// sends it) and its `Stripe-Account`.
pub fn account(request: &Request) -> Outcome<String> {
    let Some(key) = request.header("authorization").and_then(secret_key) else {
        return Err(unauthorised(
            "You did not provide an API key. You need to provide your API key in the Authorization header, using Bearer auth (e.g. \
             'Authorization: Bearer YOUR_SECRET_KEY'). See https://stripe.com/docs/api#authentication for details, or we can help at \
             https://support.stripe.com/.",
        ));
    };
    if key.starts_with("sk_live_") || key.starts_with("rk_live_") {
        return Err(unauthorised(
            "This is a simulator: it takes test keys only. Roll that live key, if you sent it by mistake.",
        ));
    }
    if !key.starts_with("sk_") && !key.starts_with("rk_") {
        return Err(unauthorised(
            "Invalid API Key provided. The simulator takes any key that begins with sk_test_ or rk_test_.",
        ));
    }
    let own = own_account(&key);
    match request.header("stripe-account") {
        None => Ok(own),
        Some(connected) if is_account(connected) => Ok(connected.to_owned()),
        Some(_) => Err(no_access()),
    }
}

/// `sk_test_acct_B_1` is one of the keys of `acct_B`.
fn own_account(key: &str) -> String {
    let named = key.split_once("_test_").and_then(|(_, rest)| rest.strip_prefix("acct_"));
    let name: String = named.unwrap_or_default().chars().take_while(char::is_ascii_alphanumeric).collect();
    if name.is_empty() { DEFAULT_ACCOUNT.to_owned() } else { format!("acct_{name}") }
}

fn is_account(id: &str) -> bool {
    id.strip_prefix("acct_").is_some_and(|name| {
        (1..=40).contains(&name.len()) && name.chars().all(|letter| letter.is_ascii_alphanumeric())
    })
}

fn unauthorised(message: &str) -> Failure {
    ApiError::new(401, ErrorType::InvalidRequest, message).refused()
}

fn secret_key(header: &str) -> Option<String> {
    let (scheme, credentials) = header.split_once(' ')?;
    let credentials = credentials.trim();
    let key = if scheme.eq_ignore_ascii_case("bearer") {
        credentials.to_owned()
    } else if scheme.eq_ignore_ascii_case("basic") {
        let decoded = String::from_utf8(base64(credentials)?).ok()?;
        decoded.split(':').next()?.to_owned()
    } else {
        return None;
    };
    (!key.is_empty()).then_some(key)
}

/// Standard base64, as much of it as a Basic header needs.
fn base64(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut pending: u32 = 0;
    let mut bits = 0;
    for character in text.trim_end_matches('=').bytes() {
        let sextet = match character {
            b'A'..=b'Z' => character - b'A',
            b'a'..=b'z' => character - b'a' + 26,
            b'0'..=b'9' => character - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        pending = (pending << 6 | u32::from(sextet)) & 0xff_ffff;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push(u8::try_from(pending >> bits & 0xff).ok()?);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(authorization: Option<&str>) -> Option<u16> {
        let mut request = Request::default();
        if let Some(value) = authorization {
            request.headers.insert("authorization".to_owned(), value.to_owned());
        }
        match account(&request) {
            Err(Failure::Refused(error)) => Some(error.status),
            _ => None,
        }
    }

    #[test]
    fn bearer_and_basic_are_taken_and_all_else_is_401() {
        assert_eq!(status(Some("Bearer sk_test_1")), None);
        assert_eq!(status(Some("bearer rk_test_1")), None);
        assert_eq!(status(Some("Basic c2tfdGVzdF8xOg==")), None);
        for wrong in [
            None,
            Some("Bearer "),
            Some("Bearer pk_test_1"),
            Some("Bearer sk_live_1"),
            Some("Basic !!!"),
            Some("Digest sk_1"),
        ] {
            assert_eq!(status(wrong), Some(401), "{wrong:?}");
        }
    }

    #[test]
    fn the_keys_of_an_account_share_it_and_a_platform_acts_for_another() {
        let account_of = |key: &str, connected: Option<&str>| {
            let mut request = Request::default();
            request.headers.insert("authorization".to_owned(), format!("Bearer {key}"));
            if let Some(connected) = connected {
                request.headers.insert("stripe-account".to_owned(), connected.to_owned());
            }
            account(&request).ok()
        };
        for (key, connected, expected) in [
            ("sk_test_any", None, Some(DEFAULT_ACCOUNT)),
            ("sk_test_acct_", None, Some(DEFAULT_ACCOUNT)),
            ("sk_test_acct_B", None, Some("acct_B")),
            ("sk_test_acct_B_1", None, Some("acct_B")),
            ("rk_test_acct_B_2", None, Some("acct_B")),
            ("sk_test_any", Some("acct_C"), Some("acct_C")),
            ("sk_test_acct_B_1", Some("acct_C"), Some("acct_C")),
            ("sk_test_any", Some("C"), None),
            ("sk_test_any", Some("acct_"), None),
        ] {
            assert_eq!(account_of(key, connected).as_deref(), expected, "{key} {connected:?}");
        }
    }
}
