//! What each fuzz target does with its bytes, and what must hold whatever they are. A panic is a finding.
//!
//! `cargo test --test properties` runs the same functions over the seeds in `corpus/`.

use once::fingerprint::{Fingerprint, Parameters};
use once::id::Owner;
use once::key::{IdempotencyKey, KEY_MAX_LEN};
use paid_once::edge::payment_params::{capture_request, refund_request};
use web::http::{REQUEST_MAX_BYTES, parse_parameters};
use web::session::Session;
use web::signing::{Purpose, SigningKeys};
use web::token::FormToken;

/// The signing key of the seeds in `corpus/token`.
pub const SIGNING_KEY: &str = "a-signing-key-for-the-fuzz-targets-only";
/// The session of the seeds in `corpus/token`.
pub const SESSION: &str = "0123456789abcdef0123456789abcdef";

/// Keys as the setting has them.
pub fn signing_keys(key: &str) -> SigningKeys {
    SigningKeys::parse(key).expect("a key that is long enough")
}

/// Header lines and the hidden field, one a line.
pub fn header(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let Ok(Some(key)) = IdempotencyKey::from_sources(text.lines()) else {
        return;
    };
    let bare = key.as_str();
    assert!((1..=KEY_MAX_LEN).contains(&bare.len()));
    assert!(bare.bytes().all(|b| b.is_ascii_graphic()));
    let quoted = format!("\"{}\"", bare.replace('\\', "\\\\").replace('"', "\\\""));
    assert_eq!(IdempotencyKey::parse(&quoted), Ok(key.clone()));
    for line in text.lines() {
        assert_eq!(IdempotencyKey::parse(line).as_ref(), Ok(&key), "every source agrees");
    }
    assert_eq!(format!("{key:?}"), "IdempotencyKey(…)", "a key is never logged");
}

/// A body; its first byte says whether it is called JSON (even) or a form (odd).
pub fn form(data: &[u8]) {
    let Some((kind, body)) = data.split_first() else {
        return;
    };
    let media_type = if kind % 2 == 0 { "application/json" } else { "application/x-www-form-urlencoded" };
    let Ok(parameters) = parse_parameters(media_type, body) else {
        return;
    };
    assert!(body.len() <= REQUEST_MAX_BYTES);
    let canonical = parameters.canonical().expect("what was read has a canonical form");
    let again = match &parameters {
        Parameters::Json(_) => parse_parameters(media_type, canonical.0.as_bytes()).ok(),
        Parameters::Form(pairs) => Some(Parameters::Form(pairs.iter().rev().cloned().collect())),
    };
    let again = again.map(|again| again.canonical().expect("so has what is canonical"));
    assert_eq!(again.as_ref(), Some(&canonical), "canonical stays canonical");
    assert!(canonical.differing_fields(&canonical).is_empty());
    assert_eq!(Fingerprint::of("POST", "/payments", &canonical).0.len(), 67);
    for name in parameters.names().into_iter().take(16) {
        parameters.text(name);
        let without = parameters.clone().without(&[name]).canonical().expect("so have fewer fields");
        assert_eq!(canonical.differing_fields(&without), [name], "what is missing is named");
    }
    let capture = capture_request(&parameters).err().map(|refused| refused.errors);
    let refund = refund_request(&parameters).err().map(|refused| refused.errors);
    for errors in [capture, refund].into_iter().flatten() {
        assert!(!errors.is_empty(), "what is refused is named");
    }
}

/// A `Cookie` header.
pub fn cookie(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    for secure in [false, true] {
        let Some(session) = Session::from_cookies(&text, secure) else {
            continue;
        };
        assert!(!session.is_new);
        let set = session.set_cookie(secure);
        assert!(!set.contains(['\r', '\n']));
        let back = Session::from_cookies(&set, secure);
        assert_eq!(back.map(|session| session.owner()), Some(session.owner()));
    }
}

/// A form's key. Only what was sealed with the key opens, and in one spelling only.
pub fn token(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else {
        return;
    };
    let (owner, keys) = (Owner::session(SESSION), signing_keys(SIGNING_KEY));
    if let Ok(token) = FormToken::open(text, Purpose::Ride, &owner, &keys) {
        // An older version signed in another way, and in fewer characters.
        let sealed = token.seal(Purpose::Ride, &owner, &keys);
        assert!(sealed == text || text.len() < sealed.len());
        let stranger = Owner::session("another");
        assert!(FormToken::open(text, Purpose::Ride, &stranger, &keys).is_err());
        assert!(
            FormToken::open(
                text,
                Purpose::Ride,
                &owner,
                &signing_keys("another-signing-key-that-is-long-enough")
            )
            .is_err()
        );
    }
}
