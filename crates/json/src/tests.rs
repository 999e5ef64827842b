//! Beside serde_json: the same values, and the same texts refused.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{from_slice, from_str, is_too_deep};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Outer {
    Plain,
    Newtype(i64),
    Pair(u8, String),
    Fields { name: String, number: Option<u64> },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Tagged {
    Empty,
    Full { text: String, list: Vec<Outer> },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Id(String);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Word {
    One,
    Two,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Whole {
    id: Id,
    flag: bool,
    number: f64,
    small: i8,
    unit: (),
    letter: char,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    maybe: Option<Box<Whole>>,
    outer: Vec<Outer>,
    tagged: Tagged,
    by_number: BTreeMap<u64, i32>,
    by_signed: BTreeMap<i64, i32>,
    by_word: BTreeMap<Word, (u16, f64)>,
    rest: Value,
}

fn agree<T: for<'de> Deserialize<'de> + PartialEq + std::fmt::Debug>(text: &str) {
    assert_eq!(from_str::<T>(text).ok(), serde_json::from_str(text).ok(), "{text}");
}

fn whole() -> Value {
    json!({
        "id": "pay_1", "flag": true, "number": -1.5e3, "small": -7, "unit": null, "letter": "ß", "outer": ["plain", { "newtype": -3 },
            { "pair": [1, "a\"b"] }, { "fields": { "name": "n", "number": 5 } }, { "fields": { "name": "n", "number": null, "new": [1] } }],
        "tagged": { "list": ["plain", { "newtype": 9 }], "kind": "full", "text": "\n\u{1f680}" }, "by_number": { "18446744073709551615": 1 },
        "by_signed": { "-4": 2 }, "by_word": { "two": [65535, 0.1] }, "rest": { "a": [1, -2, 3.5, "x", null, true, {}] },
        "a_later_field": { "deep": [[[{ "x": "]}" }]]] },
    })
}

#[test]
fn a_type_of_every_kind_is_read() {
    let mut nested = whole();
    nested["maybe"] = whole();
    for value in [whole(), nested] {
        for text in [value.to_string(), serde_json::to_string_pretty(&value).unwrap()] {
            agree::<Whole>(&text);
            assert!(from_str::<Whole>(&text).is_ok());
            assert_eq!(from_slice::<Value>(text.as_bytes()).unwrap(), value);
        }
    }
}

#[test]
fn what_is_not_that_type_is_refused_as_before() {
    for (name, wrong) in [
        ("id", json!(1)),
        ("flag", json!("true")),
        ("number", json!("1")),
        ("small", json!(200)),
        ("unit", json!(0)),
        ("letter", json!("ab")),
        ("outer", json!({})),
        ("outer", json!(["newtype"])),
        ("outer", json!([{ "plain": 1 }])),
        ("outer", json!([{ "pair": [1] }])),
        ("outer", json!([{ "pair": [1, "a", 3] }])),
        ("outer", json!([{ "fields": {}, "plain": null }])),
        ("outer", json!([{}])),
        ("outer", json!([7])),
        ("tagged", json!({ "kind": "other" })),
        ("tagged", json!({ "text": "" })),
        ("by_number", json!({ "-1": 1 })),
        ("by_number", json!({ "a": 1 })),
        ("by_signed", json!({ "": 1 })),
        ("by_word", json!({ "three": [1, 2] })),
    ] {
        let mut value = whole();
        value[name] = wrong;
        let text = value.to_string();
        agree::<Whole>(&text);
        assert!(from_str::<Whole>(&text).is_err(), "{text}");
    }
    assert!(from_str::<Id>("[]").is_err());
}

#[test]
fn numbers_and_texts_are_serde_jsons() {
    for text in [
        "0",
        "-0",
        "00",
        "01",
        "-1",
        "-01",
        "1.",
        "1.0",
        ".5",
        "1e3",
        "1E-2",
        "1e",
        "+1",
        "1e999",
        "-",
        "--1",
        "1-1",
        "9007199254740993",
        "999999999999999999",
        "1000000000000000000",
        "9223372036854775808",
        "-9223372036854775808",
        "-9223372036854775809",
        "18446744073709551615",
        "18446744073709551616",
        "123456789012345678901234567890",
        "0.1",
        "5e-324",
        "NaN",
        "Infinity",
        r#""""#,
        r#""a"#,
        r#"""#,
        r#""\"""#,
        r#""\\""#,
        r#""\"#,
        r#""\u00e9\ud83d\ude80""#,
        r#""\ud83d""#,
        r#""\x""#,
        "\"\n\"",
        "\"\u{7f}ß\"",
        "true",
        "tru",
        "truee",
        "null",
        "nul",
        "false",
        "",
        " ",
        "[",
        "]",
        "[1,]",
        "[,1]",
        "[1 2]",
        "[1]]",
        "{}",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{,}",
        "{a:1}",
        "{\"a\":1 \"b\":2}",
        " [ 1 , {\"a\" : [ ] } ] ",
        "[1]x",
        "\u{a0}1",
        "{\"a\":1,\"a\":2}",
    ] {
        agree::<Value>(text);
        agree::<Option<f64>>(text);
        agree::<Option<u64>>(text);
        agree::<Option<i64>>(text);
        agree::<String>(text);
        agree::<Vec<u8>>(text);
        agree::<HashMap<String, i32>>(text);
        agree::<serde::de::IgnoredAny>(text);
    }
}

#[test]
fn whole_numbers_of_128_bits_are_serde_jsons() {
    for text in [
        "0",
        "-0",
        "00",
        "01",
        "-01",
        "+1",
        "-",
        "",
        " 7 ",
        "1.0",
        "1e3",
        "-1",
        "18446744073709551616",
        "170141183460469231731687303715884105727",
        "170141183460469231731687303715884105728",
        "-170141183460469231731687303715884105728",
        "-170141183460469231731687303715884105729",
        "340282366920938463463374607431768211455",
        "340282366920938463463374607431768211456",
        "\"1\"",
        "null",
        "[]",
    ] {
        agree::<i128>(text);
        agree::<u128>(text);
        agree::<Option<i128>>(text);
        agree::<Vec<u128>>(&format!("[{text},1]"));
    }
    assert_eq!(from_str::<i128>(&i128::MIN.to_string()).unwrap(), i128::MIN);
    assert_eq!(from_str::<u128>(&u128::MAX.to_string()).unwrap(), u128::MAX);
    let error = from_str::<u128>("[1,2]").unwrap_err();
    assert!(error.to_string().starts_with("invalid type: sequence, expected u128"), "{error}");
}

fn is_read_as_written<K>(keys: [K; 2])
where
    K: Serialize + for<'de> Deserialize<'de> + Ord + std::fmt::Debug,
{
    let map: BTreeMap<K, u8> = keys.into_iter().map(|key| (key, 1)).collect();
    let text = serde_json::to_string(&map).unwrap();
    assert_eq!(from_str::<BTreeMap<K, u8>>(&text).unwrap(), map, "{text}");
}

#[test]
fn a_maps_keys_are_serde_jsons() {
    fn agree_on_keys<K>(keys: [K; 2])
    where
        K: Serialize + for<'de> Deserialize<'de> + Ord + std::fmt::Debug,
    {
        is_read_as_written(keys);
        let small =
            ["0", "-0", "-1", "+1", "01", "1.0", "1.5", "1e3", " 1", "1 ", "", "a", "-", "ß", "1x", "true"];
        let large = ["128", "256", "65536", "2147483648", "4294967296", "9223372036854775808"];
        let long =
            ["18446744073709551616", "-170141183460469231731687303715884105729", "9".repeat(40).leak()];
        for key in small.iter().chain(&large).chain(&long) {
            agree::<BTreeMap<K, u8>>(&json!({ *key: 1 }).to_string());
        }
    }
    agree_on_keys([i8::MIN, i8::MAX]);
    agree_on_keys([i16::MIN, i16::MAX]);
    agree_on_keys([i32::MIN, i32::MAX]);
    agree_on_keys([i64::MIN, i64::MAX]);
    agree_on_keys([i128::MIN, i128::MAX]);
    agree_on_keys([u8::MIN, u8::MAX]);
    agree_on_keys([u16::MIN, u16::MAX]);
    agree_on_keys([u32::MIN, u32::MAX]);
    agree_on_keys([u64::MIN, u64::MAX]);
    agree_on_keys([u128::MIN, u128::MAX]);
    agree_on_keys(['a', '"']);
    agree_on_keys([Word::One, Word::Two]);
    agree_on_keys([String::new(), "a\"b".to_owned()]);
}

/// Of other words serde_json panics.
#[test]
fn a_maps_keys_are_true_and_false() {
    is_read_as_written([false, true]);
    for key in ["True", "truee", "tru", "null", "1", ""] {
        assert!(from_str::<BTreeMap<bool, u8>>(&json!({ key: 1 }).to_string()).is_err(), "{key}");
    }
}

#[test]
fn a_text_without_escapes_is_not_copied() {
    #[derive(Deserialize)]
    struct Borrowed<'a> {
        #[serde(borrow)]
        plain: Cow<'a, str>,
        text: &'a str,
    }
    let read: Borrowed<'_> = from_str(r#"{"plain":"a","text":"b"}"#).unwrap();
    assert!(matches!(read.plain, Cow::Borrowed("a")));
    assert_eq!(read.text, "b");
    assert!(from_str::<&str>(r#""a\n""#).is_err());
}

#[test]
fn errors_name_their_place() {
    let error = from_str::<Outer>("\n\n  {\"newtype\":\n\"x\"}").unwrap_err();
    assert_eq!((error.line(), error.is_data()), (4, true));
    assert!(error.to_string().starts_with("invalid type: string \"x\", expected i64"), "{error}");
    let error = from_str::<Outer>("{\"newtype\":1").unwrap_err();
    assert!(error.is_eof());
    let error = from_str::<Tagged>("{\"kind\":\"full\",\"list\":[]}").unwrap_err();
    assert!(error.to_string().starts_with("missing field `text` at line 1 column"), "{error}");
    for text in ["[1,\n 1e999]", "[1,\n \"\\ud83d\"]"] {
        let [ours, theirs] = [from_str::<Value>(text), serde_json::from_str(text)].map(Result::unwrap_err);
        assert_eq!((ours.line(), 2), (theirs.line(), ours.line()), "{ours}, {theirs}");
        assert_eq!(ours.to_string().split(" at ").next(), theirs.to_string().split(" at ").next());
    }
    assert!(from_slice::<Value>(b"\"\xff\"").is_err());
    assert!(from_slice::<Value>(b"{\xff").is_err());
}

#[test]
fn nesting_is_bounded_as_before() {
    for depth in [126, 127, 128, 129, 100_000] {
        let text = "[".repeat(depth) + &"]".repeat(depth);
        assert_eq!(from_str::<Value>(&text).is_ok(), serde_json::from_str::<Value>(&text).is_ok(), "{depth}");
        assert_eq!(is_too_deep(&text), from_str::<Value>(&text).is_err(), "{depth}");
    }
    // What stands in a text is not nested, and what is behind another is not in it.
    for item in ["\"[[\"", "\"\\\"[[\"", "{\"[\\\\\":[[]]}"] {
        let text = format!("[{}]", vec![item; 200].join(","));
        assert!(from_str::<Value>(&text).is_ok() && !is_too_deep(&text), "{item}");
    }
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".*".prop_map(Value::from),
        "[ -~]*".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((".*", inner), 0..6).prop_map(|members| members.into_iter().collect()),
        ]
    })
}

proptest! {
    #[test]
    fn every_value_is_read(value in values()) {
        let text = value.to_string();
        prop_assert!(!is_too_deep(&text));
        let long = format!("[{text},{}]", ["[]"; 127].join(","));
        prop_assert!(!is_too_deep(&long));
        let deep = format!("{}{text}{}", "[".repeat(125), "]".repeat(125));
        prop_assert_eq!(is_too_deep(&deep), from_str::<Value>(&deep).is_err());
        prop_assert_eq!(from_str::<Value>(&text).unwrap(), serde_json::from_str::<Value>(&text).unwrap());
        let pretty = serde_json::to_string_pretty(&value).unwrap();
        prop_assert_eq!(from_str::<Value>(&pretty).unwrap(), serde_json::from_str::<Value>(&pretty).unwrap());
    }

    #[test]
    fn broken_texts_are_refused_alike(value in values(), at in any::<prop::sample::Index>(), with in "[\\[\\]{}:,\"\\\\0-9eE+. a-z-]") {
        let mut text = value.to_string();
        let places: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
        let at = places[at.index(places.len())];
        let length = text[at..].chars().next().map_or(0, char::len_utf8);
        text.replace_range(at..at + length, &with);
        agree::<Value>(&text);
        agree::<serde::de::IgnoredAny>(&text);
        agree::<Vec<Outer>>(&text);
    }
}
