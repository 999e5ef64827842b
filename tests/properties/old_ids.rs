//! What older releases made stays valid: the ids that were no UUIDs, and what was signed with them.

use once::id::{ObjectId, Owner};
use paid_once::edge::checkout::form_key::{FormKey, Place};
use web::session::Session;
use web::signing::{Purpose, SigningKeys};
use web::token::FormToken;

/// The texts below were signed with it, outside this code, as the comments of `signing`, `token` and `form_key` describe.
const SIGNING_KEY: &str = "signing-key-of-an-older-release-0000";
const EXPIRES_AT_MS: u64 = 1_900_000_000_000;
/// Any 32 digits were a session, also those that are no UUID of version 4.
const COOKIE: &str = "ffffffffffffffffffffffffffffffff";

fn keys() -> SigningKeys {
    SigningKeys::parse(SIGNING_KEY).unwrap()
}

/// 32 bytes that are no UUID followed by zeros.
fn object() -> ObjectId {
    ObjectId::from_bytes(std::array::from_fn(|i| 0xe0 + i as u8))
}

#[test]
fn an_older_session_cookie_is_the_same_session() {
    let session = Session::from_cookies(&format!("session={COOKIE}"), false).unwrap();
    assert!(!session.is_new);
    assert_eq!(session.owner().to_text(), "session:96bb49e2a3dfe95bf7c912afa0726da7");
}

#[test]
fn an_older_ride_form_opens() {
    let text = "AQEAAAG6YNM4AODh4uPk5ebn6Onq6-zt7u_w8fLz9PX29_j5-vv8_f7_q4RA-GyRoGggM5PIhVajMG4Zb4bih782V2EzeLDllkS49mQj";
    let opened = FormToken::open(text, Purpose::Ride, &Owner::session(COOKIE), &keys());
    assert_eq!(opened, Ok(FormToken { object: object(), expires_at_ms: EXPIRES_AT_MS }));
}

#[test]
fn an_older_login_and_an_older_button_of_the_desk_open() {
    let owner = Owner::Account("x".into());
    for (purpose, text) in [
        (
            Purpose::DeskSession,
            "ARAAAAG6YNM4AODh4uPk5ebn6Onq6-zt7u_w8fLz9PX29_j5-vv8_f7_q4RA-CKA0z56tnYUpYHWEfQOImmUpIZeMuu0u62qT_6RkVDM",
        ),
        (
            Purpose::DeskAction,
            "AREAAAG6YNM4AODh4uPk5ebn6Onq6-zt7u_w8fLz9PX29_j5-vv8_f7_q4RA-PAqOnjdZ0-wYNtxCWDXRoAImiCvdHlaUMDp0GAbeCLO",
        ),
    ] {
        let opened = FormToken::open(text, purpose, &owner, &keys());
        assert_eq!(opened, Ok(FormToken { object: object(), expires_at_ms: EXPIRES_AT_MS }), "{purpose:?}");
    }
}

#[test]
fn an_older_form_of_an_order_opens() {
    let text = "AQAAAbpg0zgA8PHy8_T19vf4-fr7_P3-_6uEQPgew1_ETAqFxIE1CutKFY9DOb335ajqu0FRNoFhBblKhg";
    let place = Place { object: ObjectId::from_bytes([7; 32]), link: "eyJ9.c2ln" };
    let opened = FormKey::open(text, place, &keys()).unwrap();
    assert_eq!(opened.expires_at_ms, EXPIRES_AT_MS);
    assert_eq!(opened.nonce.as_bytes(), &std::array::from_fn(|i| 0xf0 + i as u8));
    assert_eq!(opened.seal(place, &keys()), text);
}
