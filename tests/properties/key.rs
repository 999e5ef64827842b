use paid_once::machine::id::Owner;
use paid_once::machine::key::{IdempotencyKey, KEY_MAX_LEN, KeyError};
use proptest::prelude::*;

fn quoted(key: &str) -> String {
    format!("\"{}\"", key.replace('\\', "\\\\").replace('"', "\\\""))
}

proptest! {
    #[test]
    fn a_quoted_and_a_bare_key_are_the_same(key in "[!#-~][!-~]{0,254}") {
        let bare = IdempotencyKey::parse(&key).unwrap();
        prop_assert_eq!(bare.as_str(), &key);
        prop_assert_eq!(&IdempotencyKey::parse(&quoted(&key)).unwrap(), &bare);
        prop_assert_eq!(&IdempotencyKey::parse(&format!(" \t{key} ")).unwrap(), &bare);
        let both = [key.as_str(), &quoted(&key), &key];
        prop_assert_eq!(IdempotencyKey::from_sources(both), Ok(Some(bare)));
    }

    #[test]
    fn what_is_accepted_is_short_and_visible(text in "\\PC{0,300}|[ -~\\t\\\\\"]{0,300}|.{0,40}") {
        if let Ok(key) = IdempotencyKey::parse(&text) {
            prop_assert!((1..=KEY_MAX_LEN).contains(&key.as_str().len()));
            prop_assert!(key.as_str().bytes().all(|b| b.is_ascii_graphic()));
        }
    }

    #[test]
    fn a_key_that_is_too_long_is_refused(key in "[!#-~][!-~]{255,400}") {
        prop_assert_eq!(IdempotencyKey::parse(&key), Err(KeyError::TooLong));
        prop_assert_eq!(IdempotencyKey::parse(&quoted(&key)), Err(KeyError::TooLong));
    }

    #[test]
    fn an_invisible_character_is_refused(
        start in "[!#-~]{1,20}", bad in "[ \\t\\x00-\\x1f\\x7f-\\u{ffff}]", end in "[!-~]{1,20}",
    ) {
        let key = format!("{start}{bad}{end}");
        prop_assert_eq!(IdempotencyKey::parse(&key), Err(KeyError::BadCharacter));
        prop_assert_eq!(IdempotencyKey::parse(&quoted(&key)), Err(KeyError::BadCharacter));
    }

    #[test]
    fn a_broken_string_is_refused(key in "[!-~&&[^\"\\\\]]{0,20}", tail in "[!-~]{1,5}") {
        let broken = [
            format!("\"{key}"),
            format!("\"{key}\\\""),
            format!("\"{key}\\n\""),
            format!("\"{key}\"{tail}"),
        ];
        for broken in broken {
            prop_assert_eq!(IdempotencyKey::parse(&broken), Err(KeyError::BadQuoting), "{}", broken);
        }
    }

    #[test]
    fn sources_that_differ_are_refused(a in "[a-z]{1,10}", b in "[0-9]{1,10}") {
        let conflict = Err(KeyError::Conflicting);
        prop_assert_eq!(IdempotencyKey::from_sources([a.as_str(), &b]), conflict.clone());
        prop_assert_eq!(IdempotencyKey::from_sources([a.as_str(), &quoted(&a), &b]), conflict);
    }

    #[test]
    fn equal_keys_of_two_owners_have_different_hashes(key in "[!#-~]{1,30}", a in ".{0,10}", b in ".{0,10}") {
        prop_assume!(a != b);
        let key = IdempotencyKey::parse(&key).unwrap();
        let hashes = [Owner::Account(a.clone()), Owner::Account(b), Owner::Session(a)].map(|o| key.hash(&o));
        prop_assert!(hashes[0] != hashes[1] && hashes[0] != hashes[2] && hashes[1] != hashes[2]);
        let shown = format!("{key:?}");
        prop_assert_eq!(shown, "IdempotencyKey(…)");
    }
}

#[test]
fn no_source_is_no_key_and_an_empty_one_is_an_error() {
    assert_eq!(IdempotencyKey::from_sources([]), Ok(None));
    for empty in ["", "  ", "\"\""] {
        assert_eq!(IdempotencyKey::from_sources([empty]), Err(KeyError::Empty), "{empty:?}");
    }
}
