use once::fingerprint::Parameters;
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use web::http::parse_parameters;
use web::json::parse_object;
use web::problem::{Kind, Problem};

fn refused(body: impl AsRef<[u8]>) -> Problem {
    let body = body.as_ref();
    let problem = parse_parameters("application/json", body).expect_err(&String::from_utf8_lossy(body));
    assert_eq!(problem.kind, Kind::BadRequest);
    problem
}

/// The field that is named, in the detail and to programs.
fn named(body: impl AsRef<[u8]>) -> String {
    let problem = refused(body);
    let [error] = problem.errors.as_slice() else { panic!("{problem:?}") };
    assert!(problem.detail.contains(&format!("`{}`", error.field)), "{problem:?}");
    error.field.clone()
}

fn tree() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-9_007_199_254_740_991..=9_007_199_254_740_991i64).prop_map(Value::from),
        (-1e15..1e15).prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    scalar.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(".{0,4}", inner, 0..4).prop_map(|m| json!(m)),
        ]
    })
}

/// `value`, inside of objects and lists; and the path that leads to it.
fn nested(value: &str, way: &[bool]) -> (String, String) {
    way.iter().rev().fold((value.to_owned(), String::new()), |(text, path), is_list| {
        let dot = if path.is_empty() || path.starts_with('[') { "" } else { "." };
        if *is_list {
            (format!("[0,{text}]"), format!("[1]{dot}{path}"))
        } else {
            (format!(r#"{{"x":1,"deep":{text}}}"#), format!("deep{dot}{path}"))
        }
    })
}

/// A name, in one of the ways in which it can be written.
fn spelled(name: &str, escaped: bool) -> String {
    if !escaped {
        return json!(name).to_string();
    }
    let units: String = name.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
    format!("\"{units}\"")
}

proptest! {
    /// The reader of the library is the witness: of what is not refused nothing is read otherwise.
    #[test]
    fn what_is_read_is_what_stands_there(members in prop::collection::btree_map(".{0,6}", tree(), 0..6)) {
        let text = json!(members).to_string();
        let plain: Map<String, Value> = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(parse_object(text.as_bytes()), Ok(plain));
    }

    #[test]
    fn any_text_is_read_as_the_library_reads_it_or_refused(text in "[\\[\\]{}0-9\",:.eE+\\- a\\\\tfn]{0,40}") {
        for text in [text.clone(), format!("{{{text}}}"), format!(r#"{{"a":{text}}}"#)] {
            if let Ok(members) = parse_object(text.as_bytes()) {
                prop_assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), Value::Object(members));
            }
        }
    }

    /// However it is spelled, whatever its values are (also equal ones), and however deep it stands.
    #[test]
    fn a_name_that_stands_there_twice_is_refused_and_named_by_its_path(
        name in "[a-zé€]{1,8}", values in [tree(), tree()], equal: bool, escaped: [bool; 2],
        between in prop::option::of(tree()), way in prop::collection::vec(any::<bool>(), 0..6),
    ) {
        let [first, second] = values;
        let second = if equal { first.clone() } else { second };
        let between = between.map(|value| format!(r#""BETWEEN":{value},"#)).unwrap_or_default();
        let object = format!(
            "{{{}:{first},{between}{}:{second}}}",
            spelled(&name, escaped[0]), spelled(&name, escaped[1]),
        );
        let (text, path) = nested(&object, &way);
        let body = format!(r#"{{"body":{text}}}"#);
        let dot = if path.is_empty() || path.starts_with('[') { "" } else { "." };
        let expected: String = format!("body{dot}{path}.{name}").chars().take(64).collect();
        prop_assert_eq!(named(&body), expected, "{}", body);
        prop_assert!(refused(&body).detail.contains("twice"));
    }

    #[test]
    fn the_same_name_in_two_objects_is_no_duplicate(name in "[a-z]{1,8}", a in tree(), b in tree()) {
        let inner = |value: &Value| json!({ name.as_str(): value });
        let body = json!({ "list": [inner(&a), inner(&b)], "object": inner(&a), name.as_str().to_uppercase(): 1 });
        prop_assert!(parse_object(body.to_string().as_bytes()).is_ok());
    }

    /// Two numbers that are read are one only if they are equal.
    #[test]
    fn integers_that_are_read_stay_apart(a in "-?[1-9][0-9]{0,24}", b in "-?[1-9][0-9]{0,24}", point in "(\\.0|e0)?") {
        let read = |n: &str| {
            parse_parameters("application/json", format!(r#"{{"n":{n}{point}}}"#).as_bytes())
                .ok()
                .map(|parameters| parameters.canonical().unwrap())
        };
        let (of_a, of_b) = (read(&a), read(&b));
        prop_assert!(of_a.is_none() || of_a != of_b || a == b);
        let is_small = a.parse::<i64>().is_ok_and(|n| n.unsigned_abs() < 1 << 53);
        prop_assert_eq!(of_a.is_some(), is_small, "{}", a);
    }
}

#[test]
fn what_is_wrong_is_named_by_its_path() {
    for (body, path) in [
        (r#"{"amount":2500,"amount":2600}"#, "amount"),
        (r#"{"amount":2500,"amount":2500}"#, "amount"),
        (r#"{"am\u006funt":2500,"amount":2600}"#, "amount"),
        (r#"{"idempotency_key":"a","idempotency_key":"b"}"#, "idempotency_key"),
        (r#"{"lines":[{"name":"a","quantity":1,"name":"b"}]}"#, "lines[0].name"),
        (r#"{"lines":[{},{"name":"a","name":"b"}]}"#, "lines[1].name"),
        (r#"{"metadata":{"a":{"b":1,"b":1}}}"#, "metadata.a.b"),
        (r#"{"list":[[0,[{"a":1,"a":1}]]]}"#, "list[0][1][0].a"),
        (r#"{"amount":1e400}"#, "amount"),
        (r#"{"lines":[{"quantity":-1e999}]}"#, "lines[0].quantity"),
        (r#"{"a":9007199254740992}"#, "a"),
        (r#"{"a":[9007199254740993.0]}"#, "a[0]"),
        (r#"{"a":{"b":18446744073709551617}}"#, "a.b"),
        (r#"{"a":1e30}"#, "a"),
        (r#"{"a":{"b":tru}}"#, "a.b"),
        (r#"{"a":"\ud800"}"#, "a"),
    ] {
        assert_eq!(named(body), path, "{body}");
    }
    assert_eq!(named([b"{\"a\":\"\xff\"}".as_slice()].concat()), "a");
    assert!(refused(r#"{"amount":1e400}"#).detail.contains("number out of range"));
    assert!(refused(r#"{"a":9007199254740993}"#).detail.contains("send it as a string"));
}

#[test]
fn a_body_that_is_no_object_names_no_field() {
    for body in [" ", "{", "[1]", "\"text\"", "null", "{}x", "{} {}", "{\"a\":1,}", "\u{feff}", "{}\u{feff}"]
    {
        assert_eq!(refused(body).errors, [], "{body}");
    }
}

#[test]
fn a_byte_order_mark_before_it_is_passed_over() {
    let read = |body: &str| parse_parameters("application/json", body.as_bytes()).unwrap();
    assert_eq!(read("\u{feff}{\"amount\":2500}"), read("{\"amount\":2500}"));
}

/// The path is cut, and so is the answer.
#[test]
fn nesting_and_what_an_answer_repeats_are_bounded() {
    let deep = |levels: usize| format!(r#"{{"a":{}{}}}"#, "[".repeat(levels), "]".repeat(levels));
    assert!(parse_object(deep(100).as_bytes()).is_ok());
    for levels in [128, 30_000] {
        let problem = refused(deep(levels));
        assert!(problem.detail.contains("recursion limit"), "{}", problem.detail);
        assert!(problem.detail.len() < 300, "{}", problem.detail);
    }
    let name = "n".repeat(10_000);
    assert_eq!(named(format!(r#"{{"{name}":1,"{name}":2}}"#)), name[..64]);
}

#[test]
fn a_form_that_two_readers_could_take_for_two_requests_is_refused() {
    let form = |body: &[u8]| parse_parameters("application/x-www-form-urlencoded", body);
    for (body, field) in [
        (b"amount=2500&amount=2600".as_slice(), "amount"),
        (b"amount=2500&currency=usd&amoun%74=2500", "amount"),
        (b"idempotency_key=a&idempotency_key=a", "idempotency_key"),
        (b"a=1&a", "a"),
        (b"email=%ff", "email"),
        (b"email=\xff", "email"),
        (b"email=%C3", "email"),
        (b"x=1&email=a%ED%A0%80", "email"),
    ] {
        let problem = form(body).expect_err(&String::from_utf8_lossy(body));
        assert_eq!(problem.kind, Kind::BadRequest);
        assert_eq!(problem.errors.iter().map(|error| error.field.as_str()).collect::<Vec<_>>(), [field]);
    }
    assert_eq!(form(b"%ff=1").expect_err("a name").errors, []);
    let pairs = |pairs: &[(&str, &str)]| {
        Parameters::Form(
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        )
    };
    for (body, expected) in [
        ("a=1&&b&=c&d=e=f", vec![("a", "1"), ("b", ""), ("", "c"), ("d", "e=f")]),
        ("a+b=c+d%2B%26%3D", vec![("a b", "c d+&=")]),
        ("a=%E2%82%AC%zz%1%+1%", vec![("a", "€%zz%1% 1%")]),
    ] {
        assert_eq!(form(body.as_bytes()).ok(), Some(pairs(&expected)), "{body}");
    }
}
