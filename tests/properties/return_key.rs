use base64ct::{Base64UrlUnpadded, Encoding as _};
use once::id::ObjectId;
use paid_once::edge::return_key::ReturnKey;
use payments::payment::id::PaymentId;
use proptest::prelude::*;

use super::support::signing_keys;

fn payment(object: [u8; 32]) -> PaymentId {
    PaymentId::in_object(ObjectId::from_bytes(object))
}

fn open(text: &str, payment: PaymentId, keys: &[&str]) -> Option<ReturnKey> {
    ReturnKey::open(text, payment, &signing_keys(keys)).ok()
}

proptest! {
    #[test]
    fn a_way_back_opens_for_its_payment_and_leads_to_one_address(
        object: [u8; 32], other: [u8; 32], url in ".{0,40}", elsewhere in ".{0,40}", key in "[a-z]{1,40}",
    ) {
        prop_assume!(object != other && url != elsewhere && key != "other");
        let way = ReturnKey::leading_to(&url);
        let text = way.seal(payment(object), &signing_keys(&[&key]));
        prop_assert_eq!(open(&text, payment(object), &[&key]), Some(way));
        prop_assert_eq!(open(&text, payment(object), &["other", &key]), Some(way), "after the key was rotated");
        prop_assert_eq!(open(&text, payment(object), &["other"]), None);
        prop_assert_eq!(open(&text, payment(other), &[&key]), None);
        prop_assert_ne!(way, ReturnKey::leading_to(&elsewhere));
        prop_assert!(text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_'), "it needs no escaping");
    }

    #[test]
    fn a_way_back_with_any_bit_flipped_or_cut_off_is_refused(object: [u8; 32], url in ".{0,40}") {
        let text = ReturnKey::leading_to(&url).seal(payment(object), &signing_keys(&["k"]));
        let bytes = Base64UrlUnpadded::decode_vec(&text).unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(open(&Base64UrlUnpadded::encode_string(&flipped), payment(object), &["k"]), None, "bit {}", bit);
        }
        for length in 0..text.len() {
            prop_assert_eq!(open(&text[..length], payment(object), &["k"]), None);
        }
    }

    #[test]
    fn no_other_text_is_a_way_back(text in ".{0,80}|[A-Za-z0-9_-]{64}", object: [u8; 32]) {
        prop_assert_eq!(open(&text, payment(object), &["k"]), None);
    }
}
