use once::fingerprint::{Canonical, Field, Fingerprint, Parameters};
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use web::http::parse_parameters;

fn parse(json: &str) -> Parameters {
    parse_parameters("application/json", json.as_bytes()).unwrap_or_else(|_| panic!("{json}"))
}

fn fingerprint(canonical: &Canonical) -> Fingerprint {
    Fingerprint::of("POST", "/payments", canonical)
}

/// Values whose JSON texts differ exactly if the values do.
fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-9_007_199_254_740_991..=9_007_199_254_740_991i64).prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ]
}

fn tree() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(".{0,4}", inner, 0..4)
                .prop_map(|m| Value::Object(m.into_iter().collect())),
        ]
    })
}

fn members() -> impl Strategy<Value = Map<String, Value>> {
    prop::collection::btree_map(".{0,6}", tree(), 0..6).prop_map(|m| m.into_iter().collect())
}

/// Writes a value in one of the many ways in which it can be written.
fn spell(value: &Value, way: &mut impl Iterator<Item = u8>, out: &mut String) {
    let mut pick = |n: u8| way.next().unwrap_or(0) % n;
    match value {
        Value::Number(number) => {
            let spelling = match pick(4) {
                0 => number.to_string(),
                1 => format!("{number}.0"),
                2 => format!("{number}e0"),
                _ => format!("{number}0E-1"),
            };
            // A zero in front of an exponent is a zero.
            out.push_str(&spelling);
        }
        Value::String(text) => out.push_str(&spell_text(text, pick(2) == 0)),
        Value::Array(values) => {
            out.push_str(["[", " [\n"][usize::from(pick(2))]);
            for (i, value) in values.iter().enumerate() {
                out.push_str(if i > 0 { "\t," } else { "" });
                spell(value, way, out);
            }
            out.push(']');
        }
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            if !members.is_empty() {
                let by = usize::from(pick(6)) % members.len();
                members.rotate_left(by);
                if pick(2) == 0 {
                    members.reverse();
                }
            }
            out.push_str(["{", "\n{ "][usize::from(pick(2))]);
            for (i, (name, value)) in members.into_iter().enumerate() {
                out.push_str(if i > 0 { " ,\r\n" } else { "" });
                out.push_str(&spell_text(name, i % 2 == 0));
                out.push_str(" : ");
                spell(value, way, out);
            }
            out.push('}');
        }
        other => out.push_str(&other.to_string()),
    }
}

fn spell_text(text: &str, escaped: bool) -> String {
    if !escaped {
        return Value::from(text).to_string();
    }
    let units: String = text.encode_utf16().map(|unit| format!("\\u{unit:04X}")).collect();
    format!("\"{units}\"")
}

proptest! {
    #[test]
    fn member_order_white_space_and_spelling_never_matter(members in members(), ways: Vec<u8>) {
        let value = Value::Object(members.clone());
        let mut text = String::new();
        spell(&value, &mut ways.into_iter(), &mut text);
        let (plain, other) = (Parameters::Json(members).canonical().unwrap(), parse(&text).canonical().unwrap());
        prop_assert_eq!(&plain, &other, "{}", text);
        prop_assert_eq!(fingerprint(&plain), fingerprint(&other));
        prop_assert!(plain.differing_fields(&other).is_empty());
        prop_assert_eq!(parse(&plain.0).canonical().unwrap(), plain, "canonical stays canonical");
    }

    #[test]
    fn the_order_of_form_pairs_never_matters(
        pairs in prop::collection::vec((".{0,4}", ".{0,6}"), 0..8).prop_flat_map(|p| (Just(p.clone()), Just(p).prop_shuffle())),
    ) {
        let (a, b) = (Parameters::Form(pairs.0).canonical().unwrap(), Parameters::Form(pairs.1).canonical().unwrap());
        prop_assert_eq!(&a, &b);
        prop_assert!(a.differing_fields(&b).is_empty());
    }

    #[test]
    fn a_changed_value_matters_and_its_field_is_named_and_no_value(
        members in members(), name in ".{0,6}", old in scalar(), new in scalar(),
    ) {
        prop_assume!(old != new);
        let with = |value: Value| {
            let mut members = members.clone();
            members.insert(name.clone(), value);
            Parameters::Json(members).canonical().unwrap()
        };
        let (before, after) = (with(old), with(new));
        prop_assert!(fingerprint(&before) != fingerprint(&after));
        prop_assert_eq!(before.differing_fields(&after), [name]);
    }

    #[test]
    fn a_changed_name_matters_and_both_are_named(members in members(), a in "a[a-z]{0,5}", b in "b[a-z]{0,5}", value in tree()) {
        let with = |name: &String| {
            let mut members = members.clone();
            members.remove(&a);
            members.remove(&b);
            members.insert(name.clone(), value.clone());
            Parameters::Json(members).canonical().unwrap()
        };
        let (before, after) = (with(&a), with(&b));
        prop_assert!(fingerprint(&before) != fingerprint(&after));
        prop_assert_eq!(before.differing_fields(&after), [a, b]);
    }

    #[test]
    fn a_changed_form_matters_and_exactly_its_changes_are_named(
        pairs in prop::collection::vec(("[a-e]", "[0-9]{0,3}"), 1..6), at: prop::sample::Index, new in "[a-z]{1,3}",
    ) {
        let mut changed = pairs.clone();
        let at = at.index(pairs.len());
        changed[at].1 = new;
        let name = pairs[at].0.clone();
        let (before, after) = (Parameters::Form(pairs).canonical().unwrap(), Parameters::Form(changed).canonical().unwrap());
        prop_assert!(fingerprint(&before) != fingerprint(&after));
        prop_assert_eq!(before.differing_fields(&after), [name]);
    }

    #[test]
    fn method_and_path_matter(members in members(), a in "[A-Z/a-z]{0,9}", b in "[A-Z/a-z]{0,9}") {
        prop_assume!(a != b);
        let canonical = Parameters::Json(members).canonical().unwrap();
        let of = |method: &str, path: &str| Fingerprint::of(method, path, &canonical);
        prop_assert!(of(&a, "/x") != of(&b, "/x"));
        prop_assert!(of("POST", &a) != of("POST", &b));
        prop_assert!(of(&a, &b) != of(&b, &a));
        let joined = format!("{a}{b}");
        prop_assert!(b.is_empty() || of(&joined, "") != of(&a, &b));
    }

    #[test]
    fn what_only_the_transport_needs_never_matters(members in members(), value in tree(), text in ".{0,6}") {
        const TRANSPORT: [&str; 2] = ["idempotency_key", "raise_error"];
        let plain = Parameters::Json(members.clone());
        let mut with = members;
        with.insert(TRANSPORT[0].into(), value);
        prop_assert_eq!(Parameters::Json(with).without(&TRANSPORT).canonical().unwrap(), plain.without(&TRANSPORT).canonical().unwrap());
        let pair = |name: &str| (name.to_owned(), text.clone());
        let form = Parameters::Form(vec![pair(TRANSPORT[0]), pair("a"), pair(TRANSPORT[1])]).without(&TRANSPORT);
        prop_assert_eq!(form, Parameters::Form(vec![pair("a")]));
    }
}

/// RFC 8785, section 3.2.2 and 3.2.3, but for the number 1E30: no request may have one that large.
#[test]
fn the_examples_of_rfc_8785_come_out_as_printed() {
    let canonical = |text: &str| Parameters::Json(serde_json::from_str(text).unwrap()).canonical().unwrap().0;
    assert_eq!(
        canonical(
            r#"{
              "numbers": [333333333.33333329, 4.50, 2e-3, 0.000000000000000000000000001],
              "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
              "literals": [null, true, false]
            }"#
        ),
        r#"{"literals":[null,true,false],"numbers":[333333333.3333333,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}"#
    );
    let sorted = canonical(
        r#"{"\u20ac":"Euro Sign","\r":"Carriage Return","\ufb33":"Hebrew Letter Dalet With Dagesh","1":"One",
            "\ud83d\ude00":"Emoji: Grinning Face","\u0080":"Control","\u00f6":"Latin Small Letter O With Diaeresis"}"#,
    );
    let order = ["Carriage", "One", "Control", "Latin", "Euro", "Emoji", "Hebrew"]
        .map(|word| sorted.find(word).unwrap());
    assert!(order.is_sorted(), "{sorted}");
}

/// RFC 8785, appendix B, as far as no two whole numbers are one.
#[test]
fn numbers_are_written_as_rfc_8785_has_them() {
    for (bits, text) in [
        (0x0000_0000_0000_0000u64, "0"),
        (0x8000_0000_0000_0000, "0"),
        (0x0000_0000_0000_0001, "5e-324"),
        (0x433f_ffff_ffff_ffff, "9007199254740991"),
        (0xc33f_ffff_ffff_ffff, "-9007199254740991"),
        (0x3eb0_c6f7_a0b5_ed8c, "9.999999999999997e-7"),
        (0x3eb0_c6f7_a0b5_ed8d, "0.000001"),
        (0x41b3_de43_5555_5554, "333333333.33333325"),
        (0x41b3_de43_5555_5555, "333333333.3333333"),
        (0x41b3_de43_5555_5556, "333333333.3333334"),
        (0x41b3_de43_5555_5557, "333333333.33333343"),
        (0xbecb_f647_612f_3696, "-0.0000033333333333333333"),
    ] {
        let number = json!({ "n": f64::from_bits(bits) });
        let Value::Object(members) = number else { unreachable!() };
        assert_eq!(
            Parameters::Json(members).canonical().unwrap().0,
            format!(r#"{{"n":{text}}}"#),
            "{bits:x}"
        );
    }
}

/// RFC 7493, section 2.2. Two of them can be one double, and so two requests one.
#[test]
fn a_number_that_readers_round_has_no_canonical_form() {
    for text in [
        "9007199254740992",
        "9007199254740993",
        "-9007199254740992",
        "9007199254740993.0",
        "18446744073709551615",
        "-9223372036854775808",
        "36893488147419103233",
        "1e21",
        "1.7976931348623157e308",
    ] {
        for wrong in [text.to_owned(), format!(r#"[{{"deep":[1,{text}]}}]"#)] {
            let members =
                serde_json::from_str(&format!(r#"{{"fine":1,"wrong":{wrong},"too":"{text}"}}"#)).unwrap();
            let parameters = Parameters::Json(members);
            let refused = parameters.canonical().unwrap_err();
            assert_eq!(refused.field, "wrong");
            assert!(
                refused.to_string().starts_with("the field `wrong` has a number beyond 2^53"),
                "{refused}"
            );
            assert_eq!(parameters.text("wrong"), Field::NotText);
            assert_eq!(parameters.text("too"), Field::Text(text.to_owned()));
            assert!(parameters.without(&["wrong"]).canonical().is_ok());
        }
    }
}
