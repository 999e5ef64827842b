use once::id::Owner;
use once::key::{IdempotencyKey, KEY_MAX_LEN, KeyError};
use proptest::prelude::*;

fn quoted(key: &str) -> String {
    format!("\"{}\"", key.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Parameters as RFC 8941 has them (section 3.1.2).
fn parameters() -> impl Strategy<Value = String> {
    let string = "[ -~]{0,8}".prop_map(|text| quoted(&text));
    let value = prop_oneof![
        "-?[0-9]{1,15}",
        "-?[0-9]{1,12}\\.[0-9]{1,3}",
        "[A-Za-z*][A-Za-z0-9:/!#$%&'*+.^_`|~-]{0,8}",
        ":[A-Za-z0-9+/]{8}:",
        Just(":YWI=:".to_owned()),
        "\\?[01]",
        string,
    ];
    let parameter = (" {0,2}", "[a-z*][a-z0-9_.*-]{0,6}", prop::option::of(value));
    let parameter = parameter.prop_map(|(space, name, value)| match value {
        Some(value) => format!(";{space}{name}={value}"),
        None => format!(";{space}{name}"),
    });
    prop::collection::vec(parameter, 0..4).prop_map(|parameters| parameters.concat())
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
    fn a_broken_string_is_refused(key in "[!-~&&[^\"\\\\]]{0,20}", tail in "[!-:<-~][!-~]{0,4}") {
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
    fn the_parameters_of_an_item_are_read_and_ignored(key in "[!-~]{1,40}", parameters in parameters()) {
        let bare = IdempotencyKey::parse(&quoted(&key)).unwrap();
        let item = format!("{}{parameters}", quoted(&key));
        prop_assert_eq!(IdempotencyKey::parse(&item), Ok(bare.clone()), "{}", item);
        let lines = [item.clone(), quoted(&key), item];
        for comma in [", ", ",", " ,\t"] {
            let joined = lines.join(comma);
            prop_assert_eq!(IdempotencyKey::lines(&joined), &lines);
        }
    }

    #[test]
    fn a_bare_key_that_is_sent_several_times_is_that_key(key in "[!-~&&[^\",]]{1,40}", times in 1..4usize) {
        for comma in [", ", ",", " ,\t"] {
            let joined = vec![key.as_str(); times].join(comma);
            let sent = IdempotencyKey::from_sources(IdempotencyKey::lines(&joined));
            prop_assert_eq!(sent, IdempotencyKey::parse(&key).map(Some), "{}", joined);
        }
    }

    #[test]
    fn a_bare_key_may_have_a_comma(key in "[!-~&&[^\",]]{1,20}", more in "[!-~&&[^\",]]{1,20}") {
        prop_assume!(key != more);
        let whole = format!("{key},{more}");
        prop_assert_eq!(IdempotencyKey::lines(&whole), [&whole]);
    }

    #[test]
    fn lines_are_told_apart_whatever_stands_in_them(text in ".{0,20}|[a-z\", ;=]{0,30}") {
        let without_commas = |text: &str| text.replace([',', ' ', '\t'], "");
        prop_assert_eq!(without_commas(&IdempotencyKey::lines(&text).concat()), without_commas(&text));
    }

    #[test]
    fn a_number_of_64_bits_is_told_from_other_keys(number: u64, key in "[1-9][0-9]{20,29}|[0-9]{1,10}[a-z.-][0-9]{0,10}") {
        let key_of = |text: &str| IdempotencyKey::parse(text).unwrap();
        for number in [number.to_string(), format!("\"{number}\"")] {
            prop_assert!(key_of(&number).is_64_bit_number());
        }
        prop_assert!(!key_of(&key).is_64_bit_number());
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

#[test]
fn malformed_parameters_are_refused_and_a_bare_key_has_none() {
    for tail in [
        ";",
        ";;v=1",
        ";V=1",
        ";1=1",
        "; =1",
        ";v=",
        ";v= 1",
        ";v=1;",
        ";v =1",
        ";v=1 ;w",
        " ;v=1",
        ";v=\"open",
        ";v=?2",
        ";v=?",
        ";v=:a",
        ";v=:a:",
        ";v=1.",
        ";v=1.1234",
        ";v=1234567890123456",
        ";v=--1",
        ";v=-",
        ";v=(a b)",
        ",\"key\"",
        ";v=\"\u{e9}\"",
        ";v=1x",
    ] {
        assert_eq!(IdempotencyKey::parse(&format!("\"key\"{tail}")), Err(KeyError::BadQuoting), "{tail}");
    }
    assert_eq!(IdempotencyKey::parse("\"key\";v=1;w; x=\"a, b\" ").unwrap().as_str(), "key");
    assert_eq!(IdempotencyKey::parse("key;v=1").unwrap().as_str(), "key;v=1");
}
