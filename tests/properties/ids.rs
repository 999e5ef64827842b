use once::id::{ObjectId, Owner, RequestId};
use once::key::IdempotencyKey;
use payments::payment::id::PaymentId;
use proptest::prelude::*;
use uuid::{Builder, Uuid, Variant};

proptest! {
    #[test]
    fn an_object_id_is_64_digits(bytes: [u8; 32]) {
        let id = ObjectId::from_bytes(bytes);
        prop_assert_eq!(id.to_hex().len(), 64);
        prop_assert_eq!(ObjectId::from_hex(&id.to_hex()), Some(id));
        prop_assert_eq!(ObjectId::from_hex(&id.to_hex().to_uppercase()), Some(id));
        prop_assert_eq!(id.as_bytes(), &bytes);
    }

    #[test]
    fn no_other_text_is_an_object_id(text in "[0-9a-fA-F]{0,70}|.{0,70}") {
        let well_formed = text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit());
        prop_assert_eq!(ObjectId::from_hex(&text).is_some(), well_formed);
    }

    #[test]
    fn a_payment_id_names_its_object(bytes: [u8; 32]) {
        let id = PaymentId::in_object(ObjectId::from_bytes(bytes));
        let text = id.to_string();
        prop_assert_eq!(PaymentId::parse(&text), Some(id));
        prop_assert_eq!(id.object(), ObjectId::from_bytes(bytes));
        prop_assert_eq!(id.path(), format!("/payments/{text}"));
        // One spelling only.
        let cut = &text[..text.len() - 1];
        for other in [cut.to_owned(), format!("{text}="), format!("{text}A"), text.to_uppercase(), format!(" {text}")] {
            prop_assert_eq!(PaymentId::parse(&other), None, "{}", other);
        }
    }

    #[test]
    fn what_is_parsed_as_a_payment_id_is_its_only_spelling(text in "pay_[A-Za-z0-9_-]{40,45}|.{0,60}") {
        if let Some(id) = PaymentId::parse(&text) {
            prop_assert_eq!(id.to_string(), text);
        }
    }

    #[test]
    fn request_ids_are_uuids_that_sort_by_time(
        earlier_ms in 0..(1u64 << 48) - 1, later_by_ms in 1..1_000_000u64, random: [u8; 10], other: [u8; 10],
    ) {
        let later_ms = (earlier_ms + later_by_ms).min((1 << 48) - 1);
        let [earlier, later] = [(earlier_ms, random), (later_ms, other)].map(|(ms, random)| RequestId::new(ms, random).0);
        prop_assert!(earlier < later);
        let id: Uuid = earlier.strip_prefix("req_").unwrap().parse().unwrap();
        prop_assert_eq!((id.get_version_num(), id.get_variant()), (7, Variant::RFC4122));
        prop_assert_eq!(RequestId::new(earlier_ms, random) == RequestId::new(earlier_ms, other), random == other);
    }

    #[test]
    fn a_uuid_is_a_key_as_a_client_would_send_it(random: [u8; 16]) {
        let id = Builder::from_random_bytes(random).into_uuid();
        prop_assert!(IdempotencyKey::parse(&id.to_string()) == Ok(IdempotencyKey::from(id)));
    }

    #[test]
    fn an_owner_survives_storage(id in ".{0,40}") {
        for owner in [Owner::Account(id.clone()), Owner::Session(id.clone()), Owner::session(&id)] {
            prop_assert_eq!(Owner::from_text(&owner.to_text()), Some(owner));
        }
    }

    #[test]
    fn no_other_text_is_an_owner(text in ".{0,30}") {
        let known = text.starts_with("account:") || text.starts_with("session:");
        prop_assert_eq!(Owner::from_text(&text).is_some(), known);
    }

    #[test]
    fn a_session_is_known_by_a_hash_alone(a in "[0-9a-f]{32}", b in "[0-9a-f]{32}") {
        prop_assume!(a != b);
        prop_assert!(Owner::session(&a) != Owner::session(&b));
        prop_assert!(!Owner::session(&a).to_text().contains(&a));
    }
}
