use once::fingerprint::{Field, Parameters};
use once::id::RequestId;
use proptest::prelude::*;
use uuid::Builder;
use web::http::{REQUEST_MAX_BYTES, Request, parse_parameters, percent_decode};
use web::key_source;
use web::problem::Kind;
use web::session::Session;

fn request(headers: &[(&str, &str)]) -> Request {
    Request {
        id: RequestId("req_1".into()),
        now_ms: 0,
        method: "POST".into(),
        scheme: "https".into(),
        host: "example.com".into(),
        path: "/rides".into(),
        query: String::new(),
        headers: headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        body: Vec::new(),
        trace: None,
    }
}

proptest! {
    #[test]
    fn any_body_is_read_or_refused(media_type in "application/json|application/x-www-form-urlencoded|.{0,20}", body: Vec<u8>) {
        if let Ok(parameters) = parse_parameters(&media_type, &body) {
            for name in parameters.names() {
                prop_assert!(parameters.text(name) != Field::Missing || parameters.text(name) == Field::Missing);
            }
        }
    }

    #[test]
    fn a_form_survives_its_encoding(pairs in prop::collection::btree_map(".{0,8}", ".{0,8}", 0..6)) {
        let pairs: Vec<(String, String)> = pairs.into_iter().collect();
        let body = serde_urlencoded::to_string(&pairs).unwrap();
        for media_type in ["application/x-www-form-urlencoded", "Application/X-WWW-Form-Urlencoded ; charset=utf-8"] {
            prop_assert_eq!(parse_parameters(media_type, body.as_bytes()).ok(), Some(Parameters::Form(pairs.clone())));
        }
    }

    #[test]
    fn a_json_body_is_an_object_or_refused(text in "[\\[\\]0-9\", tfn]{1,20}") {
        prop_assert!(parse_parameters("application/json", text.as_bytes()).is_err());
    }

    #[test]
    fn a_field_given_twice_is_no_text(name in "[a-z]{1,5}", a in ".{0,5}", b in ".{0,5}") {
        let form = Parameters::Form(vec![(name.clone(), a), (name.clone(), b)]);
        prop_assert_eq!(form.text(&name), Field::NotText);
    }

    #[test]
    fn percent_decoding_undoes_encoding(text in ".{0,20}") {
        let encoded: String = text.bytes().map(|b| format!("%{b:02X}")).collect();
        prop_assert_eq!(percent_decode(&encoded), Some(text.clone()));
        percent_decode(&text);
    }

    #[test]
    fn a_cookie_header_never_confuses_the_session(before in ".{0,30}", after in ".{0,30}", random: [u8; 16], secure: bool) {
        let session = Session::new(Builder::from_random_bytes(random).into_uuid());
        let cookie = session.set_cookie(secure);
        let value = cookie.split(';').next().unwrap();
        let other = |text: &str| Session::from_cookies(text, secure).is_none();
        prop_assume!(other(&before) && other(&after));
        let header = format!("{before}; {value}; {after}");
        prop_assert_eq!(Session::from_cookies(&header, secure).map(|s| s.owner()), Some(session.owner()));
        prop_assert!(Session::from_cookies(&header, !secure).is_none(), "a plain cookie is no __Host- cookie");
    }

    #[test]
    fn a_wait_is_bounded(prefer in "(wait=[0-9\"]{0,25}|[a-z=,; ]{0,10}){0,3}", default_ms in 0..60_000u64) {
        let wait_ms = key_source::wait_ms(&request(&[("prefer", &prefer)]), default_ms);
        prop_assert!(wait_ms <= 30_000 || wait_ms == default_ms);
    }

    #[test]
    fn header_lines_and_hidden_field_must_agree(a in "[!#-+\\--~]{1,20}", b in "[!#-+\\--~]{1,20}") {
        let field = |value: &str| Parameters::Form(vec![("idempotency_key".into(), value.to_owned())]);
        let joined = format!("{a}, \"{}\"", a.replace('\\', "\\\\").replace('"', "\\\""));
        let key = key_source::key(&request(&[("idempotency-key", &joined)]), Some(&field(&a)));
        prop_assert_eq!(key.ok().flatten().map(|key| key.as_str().to_owned()), Some(a.clone()));
        let differs = key_source::key(&request(&[("idempotency-key", &a)]), Some(&field(&b)));
        prop_assert_eq!(differs.is_err(), a != b);
    }

    /// Firefox's own key is such a number in quotes, and another one for each click.
    #[test]
    fn a_browsers_own_key_is_no_clients_key(number: u64, quotes: bool, site in "same-origin|same-site|cross-site|none", key in "[a-z]{1,9}") {
        let own = if quotes { format!("\"{number}\"") } else { number.to_string() };
        let (of_browser, of_program) = ([("idempotency-key", own.as_str()), ("sec-fetch-site", site.as_str())], [("idempotency-key", own.as_str()), ("sec-fetch-mode", "cors")]);
        let (of_browser, of_program) = (request(&of_browser), request(&of_program));
        let key_of = |request: &Request, field: Option<&Parameters>| {
            key_source::key(request, field).map(|key| key.map(|key| key.as_str().to_owned())).map_err(|problem| problem.kind)
        };
        let field = Parameters::Form(vec![("idempotency_key".into(), key.clone())]);
        prop_assert_eq!(key_of(&of_browser, None), Ok(None));
        prop_assert_eq!(key_of(&of_browser, Some(&field)), Ok(Some(key.clone())));
        prop_assert_eq!(key_of(&of_program, None), Ok(Some(number.to_string())));
        prop_assert_eq!(key_of(&of_program, Some(&field)), Err(Kind::KeyInvalid));
        let scripts = request(&[("idempotency-key", &key), ("sec-fetch-site", "cross-site")]);
        prop_assert_eq!(key_of(&scripts, None), Ok(Some(key.clone())));
        // In a form its hidden field wins over any header.
        let form_key = key_source::form_key(&field).map(|key| key.map(|key| key.as_str().to_owned())).map_err(|problem| problem.kind);
        prop_assert_eq!(form_key, Ok(Some(key)));
    }
}

/// Who sends `true` has lost a key: all such requests would be one.
#[test]
fn what_is_true_or_false_is_no_key() {
    let key_with = |header: &[(&str, &str)], value: serde_json::Value| {
        let field = Parameters::Json([("idempotency_key".to_owned(), value)].into_iter().collect());
        let key = key_source::key(&request(header), Some(&field));
        key.map(|key| key.map(|key| key.as_str().to_owned())).map_err(|problem| problem.kind)
    };
    let key = |value: serde_json::Value| key_with(&[], value);
    for value in [true.into(), false.into(), serde_json::json!([]), serde_json::json!({})] {
        assert_eq!(key(value), Err(Kind::KeyInvalid));
    }
    assert_eq!(key("true".into()), Ok(Some("true".to_owned())));
    assert_eq!(key(17.into()), Ok(Some("17".to_owned())));
    // Nothing in it is a key that was lost, unless the header has it.
    for value in [serde_json::Value::Null, "".into()] {
        assert_eq!(key(value), Err(Kind::KeyInvalid));
    }
    let header = [("idempotency-key", "\"k\"")];
    assert_eq!(key_with(&header, serde_json::Value::Null), Ok(Some("k".to_owned())));
    let form = Parameters::Form(vec![("idempotency_key".to_owned(), String::new())]);
    assert!(
        key_source::key(&request(&[]), Some(&form)).is_err_and(|problem| problem.kind == Kind::KeyInvalid)
    );
    assert_eq!(key_source::form_key(&form).ok(), Some(None), "a form of before keys had none");
}

#[test]
fn a_body_that_is_too_large_is_refused() {
    let body = vec![b'a'; REQUEST_MAX_BYTES + 1];
    assert!(parse_parameters("application/x-www-form-urlencoded", &body).is_err());
    assert!(parse_parameters("application/x-www-form-urlencoded", &body[1..]).is_ok());
}

/// Many clients call every request JSON, also one that has no body.
#[test]
fn a_body_that_is_not_there_has_no_parameters() {
    for media_type in ["", "text/plain", "application/json", "application/x-www-form-urlencoded"] {
        assert_eq!(parse_parameters(media_type, b"").unwrap(), Parameters::Form(Vec::new()), "{media_type}");
    }
}

#[test]
fn html_is_for_whoever_prefers_it() {
    for (accept, is_html) in [
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", true),
        ("TEXT/HTML", true),
        ("text/html, application/json", true),
        ("text/html, */*", true),
        ("application/problem+json, text/html;q=0.1", false),
        ("text/html;q=0.1, */*", false),
        ("text/html;Q=0.5, application/json;q=0.9", false),
        ("text/html;q=0", false),
        ("*/*", false),
        ("application/json", false),
        ("", false),
    ] {
        assert_eq!(request(&[("accept", accept)]).wants_html(), is_html, "{accept}");
    }
}

#[test]
fn a_client_says_how_long_it_waits() {
    for (prefer, expected_ms) in [
        ("wait=5", 5_000),
        ("respond-async, wait=0", 0),
        ("wait=\"7\"", 7_000),
        ("wait=99999999999999999999", 10_000),
        ("wait=600", 30_000),
        ("Wait = 3", 3_000),
        ("wait=4; strict", 4_000),
        ("other; wait=0", 10_000),
        ("wait", 10_000),
    ] {
        assert_eq!(key_source::wait_ms(&request(&[("prefer", prefer)]), 10_000), expected_ms, "{prefer}");
    }
}

#[test]
fn a_form_from_another_site_is_told_apart() {
    for (headers, ours) in [
        (vec![("origin", "https://example.com")], true),
        (vec![("origin", "https://evil.example")], false),
        (vec![("origin", "http://example.com")], false),
        (vec![("origin", "null")], false),
        (vec![("origin", "null"), ("sec-fetch-site", "same-origin")], true),
        // A frame in a sandbox, or a form that another site has led here.
        (vec![("origin", "null"), ("sec-fetch-site", "cross-site")], false),
        (vec![("origin", "null"), ("sec-fetch-site", "same-site")], false),
        (vec![("origin", "null"), ("sec-fetch-site", "none")], false),
        (vec![("origin", "https://evil.example"), ("sec-fetch-site", "same-origin")], false),
        (vec![("sec-fetch-site", "same-origin")], true),
        (vec![("sec-fetch-site", "cross-site")], false),
        (vec![("sec-fetch-site", "same-site")], false),
        (vec![], true),
    ] {
        assert_eq!(web::origin::from_our_pages(&request(&headers)), ours, "{headers:?}");
    }
}
