use base64ct::{Base64UrlUnpadded, Encoding as _};
use once::id::{ObjectId, Owner};
use once::key::IdempotencyKey;
use proptest::prelude::*;
use web::signing::Purpose;
use web::token::FormToken;

use super::support::signing_keys;

fn open(text: &str, owner: &Owner, keys: &[&str]) -> Option<FormToken> {
    FormToken::open(text, Purpose::Ride, owner, &signing_keys(keys)).ok()
}

proptest! {
    #[test]
    fn a_token_opens_for_its_session_and_nobody_else(
        object: [u8; 32], expires_at_ms: u64, session in "[0-9a-f]{32}", other in "[0-9a-f]{32}", key in "[a-z]{1,40}",
    ) {
        prop_assume!(session != other && key != "other");
        let token = FormToken { object: ObjectId::from_bytes(object), expires_at_ms };
        let owner = Owner::session(&session);
        let text = token.seal(Purpose::Ride, &owner, &signing_keys(&[&key]));
        prop_assert_eq!(open(&text, &owner, &[&key]), Some(token), "with the time at which it expires");
        prop_assert_eq!(open(&text, &owner, &["other", &key]), Some(token), "after the key was rotated");
        prop_assert_eq!(open(&text, &owner, &["other"]), None);
        prop_assert_eq!(open(&text, &Owner::session(&other), &[&key]), None);
        prop_assert_eq!(open(&text, &Owner::Account(session), &[&key]), None);
        let as_key = IdempotencyKey::parse(&text).unwrap();
        prop_assert_eq!(as_key.as_str(), &text, "it is a key as it stands");
    }

    #[test]
    fn a_token_with_any_bit_flipped_is_refused(object: [u8; 32], expires_at_ms: u64) {
        let (owner, keys) = (Owner::session("s"), signing_keys(&["k"]));
        let text = FormToken { object: ObjectId::from_bytes(object), expires_at_ms }.seal(Purpose::Ride, &owner, &keys);
        let bytes = Base64UrlUnpadded::decode_vec(&text).unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(open(&Base64UrlUnpadded::encode_string(&flipped), &owner, &["k"]), None, "bit {}", bit);
        }
        for (i, byte) in text.bytes().enumerate() {
            let mut other = text.clone().into_bytes();
            other[i] = if byte == b'A' { b'B' } else { b'A' };
            prop_assert_eq!(open(&String::from_utf8(other).unwrap(), &owner, &["k"]), None, "character {}", i);
        }
        for length in 0..text.len() {
            prop_assert_eq!(open(&text[..length], &owner, &["k"]), None);
        }
    }

    #[test]
    fn no_other_text_opens(text in ".{0,120}|[A-Za-z0-9_-]{99}|[A-Za-z0-9_-]{104}") {
        prop_assert_eq!(open(&text, &Owner::session("s"), &["k"]), None);
    }
}
