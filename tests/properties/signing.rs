//! Keys by purpose, and by time.

use once::id::{ObjectId, Owner};
use paid_once::edge::checkout::form_key::{FormKey, Place};
use proptest::prelude::*;
use uuid::Uuid;
use web::signing::{Genuine, Purpose, SIGNATURE_LEN, SigningKeys};
use web::token::FormToken;

use super::support::signing_keys;

const ALL: [Purpose; 6] = [
    Purpose::Ride,
    Purpose::OrderLink,
    Purpose::OrderForm,
    Purpose::ReturnAddress,
    Purpose::DeskSession,
    Purpose::DeskAction,
];
const FOR_EVER: Option<Genuine> = Some(Genuine { ends_at_ms: u64::MAX });

fn keys(setting: &str) -> SigningKeys {
    SigningKeys::parse(setting).unwrap()
}

proptest! {
    #[test]
    fn what_is_signed_for_one_purpose_is_worth_nothing_for_another(text in ".{0,40}", key in "[a-z]{1,40}") {
        let keys = signing_keys(&[&key]);
        for signed in ALL {
            let signature = keys.sign(signed, &[text.as_bytes()]);
            prop_assert_eq!(signature.len(), SIGNATURE_LEN);
            for asked in ALL {
                let verified = keys.verify(asked, &[text.as_bytes()], &signature);
                prop_assert_eq!(verified, FOR_EVER.filter(|_| asked == signed));
            }
        }
    }

    #[test]
    fn a_key_whose_time_is_over_still_shows_but_starts_nothing(
        object: [u8; 32], nonce: u128, expires_at_ms: u64, days in 0..20_000u64,
    ) {
        let (new, old) = ("n".repeat(32), "o".repeat(32));
        let date = payments::timestamp(days * 86_400_000);
        let rotated = keys(&format!("{new} {old}@{}", &date[..10]));
        let owner = Owner::session("s");
        let token = FormToken { object: ObjectId::from_bytes(object), expires_at_ms };
        let opened = FormToken::open(&token.seal(Purpose::Ride, &owner, &keys(&old)), Purpose::Ride, &owner, &rotated);
        let ends_at_ms = expires_at_ms.min(days * 86_400_000);
        prop_assert_eq!(opened, Ok(FormToken { expires_at_ms: ends_at_ms, ..token }));
        let opened = FormToken::open(&token.seal(Purpose::Ride, &owner, &rotated), Purpose::Ride, &owner, &rotated);
        prop_assert_eq!(opened, Ok(token), "the first key has no end");
        let place = Place { object: token.object, link: "a.b" };
        let form_key = FormKey { nonce: Uuid::from_u128(nonce), expires_at_ms };
        let opened = FormKey::open(&form_key.seal(place, &keys(&old)), place, &rotated);
        prop_assert_eq!(opened, Ok(FormKey { expires_at_ms: ends_at_ms, ..form_key }));
    }

    #[test]
    fn no_bytes_are_a_signature(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        for purpose in ALL {
            prop_assert_eq!(signing_keys(&["k"]).verify(purpose, &[b"x"], &bytes), None);
        }
    }
}

#[test]
fn nothing_of_a_key_is_shown() {
    assert_eq!(format!("{:?}", signing_keys(&["hush", "hush-too"])), "SigningKeys(2)");
}
