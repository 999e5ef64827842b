//! The API's document says what the code does, and the protocol names its routes as they are.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    unreachable_pub,
    reason = "a test: a panic is its verdict, and nobody links to it"
)]

mod examples;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use paid_once::edge::openapi::document;
use paid_once::edge::route::Endpoint;
use paid_once::edge::routes::{self, DOCUMENTED, ENDPOINTS};
use serde_json::Value;
use web::problem::Kind;

static DOCUMENT: LazyLock<Value> = LazyLock::new(|| document(DOCUMENTED));

/// What is for browsers alone: the files that pages are made of. The desk's pages and buttons are for browsers too; of what is below it
/// only the statistics are for programs.
fn is_for_browsers(pattern: &str) -> bool {
    let files = ["/assets/{file}", "/docs/{file}", "/guide", "/guide/{name}"].contains(&pattern);
    files || (pattern.starts_with("/admin") && pattern != "/admin/stats")
}

/// HEAD works wherever GET does, and OPTIONS everywhere: the document says so once.
const METHODS: [&str; 6] = ["GET", "POST", "PUT", "PATCH", "DELETE", "TRACE"];

fn paths() -> &'static serde_json::Map<String, Value> {
    DOCUMENT["paths"].as_object().unwrap()
}

/// Every pattern that the routes know.
fn patterns() -> BTreeSet<&'static str> {
    ENDPOINTS.iter().map(|endpoint| endpoint.pattern).collect()
}

/// The methods that the code answers at an address of this pattern.
fn answered(pattern: &str) -> BTreeSet<String> {
    let of_pattern = ENDPOINTS.iter().filter(|endpoint| endpoint.pattern == pattern);
    of_pattern.map(|endpoint| endpoint.method.as_str().to_owned()).collect()
}

/// The methods that are documented for this pattern.
fn documented(pattern: &str) -> BTreeSet<String> {
    let Some(path) = paths().get(pattern) else { return BTreeSet::new() };
    let methods = path.as_object().unwrap().keys().map(|method| method.to_uppercase());
    methods.filter(|method| METHODS.contains(&method.as_str())).collect()
}

/// Every operation, as `GET /rides/{id}`.
fn operations() -> BTreeMap<String, &'static Value> {
    let of_path = |(path, item): (&'static String, &'static Value)| {
        let operations = item.as_object().unwrap().iter();
        operations.map(move |(method, operation)| (format!("{} {path}", method.to_uppercase()), operation))
    };
    paths().iter().flat_map(of_path).collect()
}

/// Calls `visit` with every value in the document and where it stands.
fn walk(value: &'static Value, at: &str, visit: &mut impl FnMut(&str, &'static Value)) {
    visit(at, value);
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                walk(value, &format!("{at}/{}", name.replace('~', "~0").replace('/', "~1")), visit);
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                walk(value, &format!("{at}/{index}"), visit);
            }
        }
        _ => {}
    }
}

/// Every `$ref`.
fn references() -> Vec<(String, &'static str)> {
    let mut found = Vec::new();
    walk(&DOCUMENT, "#", &mut |at, value| {
        if let Some(target) = value.get("$ref").and_then(Value::as_str) {
            found.push((at.to_owned(), target));
        }
    });
    found
}

/// The schema of each type of problem, by the last part of the type.
fn problems() -> BTreeMap<String, &'static Value> {
    let schemas = DOCUMENT["components"]["schemas"].as_object().unwrap();
    let typed = schemas.values().filter_map(|schema| {
        let r#type = schema.pointer("/properties/type/const")?.as_str()?;
        Some((r#type.strip_prefix("/problems/")?.to_owned(), schema))
    });
    typed.collect()
}

#[test]
fn every_route_and_method_is_documented() {
    for pattern in patterns().into_iter().filter(|pattern| !is_for_browsers(pattern)) {
        let missing: Vec<String> = answered(pattern).difference(&documented(pattern)).cloned().collect();
        assert!(missing.is_empty(), "{pattern}: {missing:?} is answered and not documented");
    }
}

#[test]
fn every_documented_operation_is_answered() {
    for pattern in paths().keys() {
        let unknown: Vec<String> = documented(pattern).difference(&answered(pattern)).cloned().collect();
        assert!(unknown.is_empty(), "{pattern}: {unknown:?} is documented and not answered");
    }
}

#[test]
fn no_pattern_hides_another() {
    for endpoint in ENDPOINTS {
        // What could stand there: a word of the patterns, a number, or a button.
        for word in ["1", "void", "hold", "resume", "purge", "accept"] {
            let mut parts: Vec<&str> = endpoint.pattern.split('/').collect();
            parts.iter_mut().filter(|part| part.starts_with('{')).for_each(|part| *part = word);
            if let Some(route) = routes::find(&parts.join("/")) {
                let is_literal = !route.name().contains('{');
                assert!(
                    route.name() == endpoint.pattern || is_literal,
                    "{} is {}",
                    parts.join("/"),
                    route.name()
                );
            }
        }
        let parts: Vec<&str> = endpoint.pattern.split('/').collect();
        if parts.iter().all(|part| !part.starts_with('{')) {
            assert_eq!(routes::find(endpoint.pattern).unwrap().name(), endpoint.pattern);
        }
    }
}

#[test]
fn every_kind_of_problem_is_documented_with_its_status_and_title() {
    let problems = problems();
    for kind in Kind::ALL {
        let schema = problems.get(kind.slug()).unwrap_or_else(|| panic!("{} is not documented", kind.slug()));
        assert_eq!(schema["properties"]["status"]["const"], kind.status(), "{}", kind.slug());
        assert_eq!(schema["title"], kind.title(), "{}", kind.slug());
        assert_eq!(schema["description"], kind.explanation(), "{}", kind.slug());
    }
    for slug in problems.keys() {
        assert!(Kind::from_slug(slug).is_some(), "{slug} is documented, and no kind of problem");
    }
}

#[test]
fn the_protocols_list_of_problems_is_complete_and_has_their_statuses() {
    let protocol = include_str!("../../docs/protocol.md");
    let (_, after) = protocol.split_once("\n## Problems\n").unwrap();
    let section = after.split("\n## ").next().unwrap();
    let mut listed: Vec<(u16, &str)> = Vec::new();
    for line in section.lines().filter(|line| line.contains("`/problems/")) {
        let status = line.split('|').nth(1).unwrap().trim().parse().unwrap();
        let slugs = line.split("`/problems/").skip(1).map(|rest| rest.split('`').next().unwrap());
        listed.extend(slugs.map(|slug| (status, slug)));
    }
    let mut known: Vec<(u16, &str)> = Kind::ALL.iter().map(|kind| (kind.status(), kind.slug())).collect();
    listed.sort_unstable();
    known.sort_unstable();
    assert_eq!(listed, known);
}

/// The requests that a text names, as `GET /rides/{id}`.
fn named(text: &'static str) -> BTreeSet<(&'static str, &'static str)> {
    let of_method = |method: &'static str| {
        let after = text.split(method).skip(1).filter_map(|rest| rest.strip_prefix(" /"));
        let path = |rest: &'static str| {
            let end = rest
                .find(|c: char| !(c.is_ascii_alphanumeric() || "/_-{}.".contains(c)))
                .unwrap_or(rest.len());
            (method, rest[..end].trim_end_matches('.'))
        };
        after.map(path).collect::<Vec<_>>()
    };
    ["GET", "POST", "PUT", "DELETE"].into_iter().flat_map(of_method).collect()
}

#[test]
fn the_protocol_names_the_routes_of_the_api_and_no_others() {
    let protocol = named(concat!(
        include_str!("../../docs/protocol.md"),
        include_str!("../../docs/protocol-shop.md"),
        include_str!("../../docs/protocol-operator.md"),
    ));
    let of_table: BTreeSet<(&str, &str)> =
        ENDPOINTS.iter().map(|endpoint| (endpoint.method.as_str(), &endpoint.pattern[1..])).collect();
    // What Adyen is asked, what programs of the operator's may ask of the desk, and the demo's own.
    let of_others = [
        ("POST", "cancels"),
        ("POST", "admin/api/dead-letters/{kind}/requeue"),
        ("POST", "rides"),
        ("GET", "rides/{id}"),
    ];
    let unknown: Vec<_> =
        protocol.difference(&of_table).filter(|request| !of_others.contains(request)).collect();
    assert!(unknown.is_empty(), "the protocol names {unknown:?}: no such route");
    let is_for_clients = |endpoint: &&Endpoint| endpoint.own.who.is_api();
    for endpoint in ENDPOINTS.iter().filter(is_for_clients) {
        let request = (endpoint.method.as_str(), &endpoint.pattern[1..]);
        assert!(protocol.contains(&request), "the protocol does not name {request:?}");
    }
}

#[test]
fn a_problem_stands_under_its_own_status_only() {
    let problems = problems();
    for (operation, value) in operations() {
        for (status, response) in value["responses"].as_object().unwrap() {
            let content = &resolve(response)["content"]["application/problem+json"]["schema"];
            let choices = content["oneOf"].as_array().cloned().unwrap_or_else(|| vec![content.clone()]);
            for choice in choices.iter().filter(|choice| !choice.is_null()) {
                let schema = resolve_name(choice["$ref"].as_str().unwrap());
                assert_eq!(schema["properties"]["status"]["const"].to_string(), *status, "{operation}");
            }
        }
    }
    let mentioned: BTreeSet<&str> = references().into_iter().map(|(_, target)| target).collect();
    for schema in problems.values() {
        let name = DOCUMENT["components"]["schemas"]
            .as_object()
            .unwrap()
            .iter()
            .find(|(_, s)| s == schema)
            .unwrap()
            .0;
        let target = format!("#/components/schemas/{name}");
        assert!(mentioned.contains(target.as_str()), "{name} is no answer of any operation");
    }
}

/// Calls `visit` with a value and all within it, also behind references.
fn walk_through(
    value: &'static Value,
    seen: &mut BTreeSet<&'static str>,
    visit: &mut impl FnMut(&'static Value),
) {
    walk(value, "", &mut |_, value| visit(value));
    let mut targets = Vec::new();
    walk(value, "", &mut |_, value| targets.extend(value.get("$ref").and_then(Value::as_str)));
    for target in targets {
        if seen.insert(target) {
            walk_through(resolve_name(target), seen, visit);
        }
    }
}

/// Clients that were made of the document go on reading the answers of a release that says more.
#[test]
fn an_answer_may_have_more_members_and_a_request_may_not() {
    let is_closed = |value: &Value| {
        ["additionalProperties", "unevaluatedProperties"].iter().any(|keyword| value[*keyword] == false)
    };
    for (what, operation) in operations() {
        let mut open = BTreeSet::new();
        walk_through(&operation["responses"], &mut open, &mut |value| {
            assert!(!is_closed(value), "{what} answers with what may have no other members: {value}");
        });
    }
    for name in ["CheckoutSessionRequest", "CheckoutLine", "CheckoutForm", "AccountSettingsRequest"] {
        assert!(is_closed(&DOCUMENT["components"]["schemas"][name]), "{name}");
    }
}

/// Generators make a type of each constant, and of several problems the one that `type` says.
#[test]
fn a_constant_has_a_type_and_one_of_several_problems_is_told_by_its_own() {
    let mut unions = 0;
    walk(&DOCUMENT, "#", &mut |at, value| {
        if let Some(constant) = value.get("const").filter(|_| !at.ends_with("/properties")) {
            let named = match constant {
                Value::String(_) => "string",
                Value::Bool(_) => "boolean",
                _ => "integer",
            };
            assert_eq!(value["type"], named, "{at}");
        }
        let choices = value.get("oneOf").and_then(Value::as_array).into_iter().flatten();
        let problems: Vec<(String, String)> = choices
            .filter_map(|choice| choice["$ref"].as_str())
            .filter_map(|target| {
                let r#type = resolve_name(target).pointer("/properties/type/const")?.as_str()?;
                Some((r#type.to_owned(), target.to_owned()))
            })
            .collect();
        if problems.iter().any(|(r#type, _)| r#type.starts_with("/problems/")) {
            unions += 1;
            assert_eq!(value["discriminator"]["propertyName"], "type", "{at}");
            let mapping = value["discriminator"]["mapping"].as_object().unwrap();
            let mapping: BTreeMap<String, String> = mapping
                .iter()
                .map(|(r#type, to)| (r#type.clone(), to.as_str().unwrap().to_owned()))
                .collect();
            assert_eq!(mapping, problems.into_iter().collect(), "{at}");
        }
    });
    assert!(unions > 10, "{unions} unions of problems");
}

/// As a form the objects of a body are written as `name[member]`.
#[test]
fn what_is_an_object_in_json_has_its_encoding_as_a_form() {
    let mut found = BTreeSet::new();
    for (what, operation) in operations() {
        let form = &operation["requestBody"]["content"]["application/x-www-form-urlencoded"];
        let members = resolve(&form["schema"])["properties"].as_object().into_iter().flatten();
        for (name, _) in members.filter(|(_, schema)| resolve(schema)["type"] == "object") {
            let encoding = &form["encoding"][name];
            assert_eq!(
                (&encoding["style"], &encoding["explode"]),
                (&"deepObject".into(), &true.into()),
                "{what}: {name}"
            );
            found.insert(name.as_str());
        }
        for name in form["encoding"].as_object().into_iter().flat_map(|encoding| encoding.keys()) {
            assert!(found.contains(name.as_str()), "{what}: {name}");
        }
    }
    assert_eq!(found, BTreeSet::from(["fallback", "metadata"]));
}

fn resolve_name(target: &str) -> &'static Value {
    DOCUMENT.pointer(target.trim_start_matches('#')).unwrap()
}

fn resolve(value: &'static Value) -> &'static Value {
    value.get("$ref").and_then(Value::as_str).map_or(value, resolve_name)
}

#[test]
fn every_reference_leads_somewhere_and_everything_is_used() {
    let references = references();
    for (at, target) in &references {
        assert!(
            DOCUMENT.pointer(target.trim_start_matches('#')).is_some(),
            "{at} leads to {target}: nothing is there"
        );
    }
    let targets: BTreeSet<&str> = references.iter().map(|(_, target)| *target).collect();
    for (group, members) in DOCUMENT["components"].as_object().unwrap() {
        for name in members.as_object().unwrap().keys().filter(|_| group != "securitySchemes") {
            let target = format!("#/components/{group}/{name}");
            assert!(targets.contains(target.as_str()), "nothing uses {target}");
        }
    }
}

#[test]
fn every_operation_has_a_name_of_its_own_a_known_tag_and_its_path_parameters() {
    let tags: BTreeSet<&str> =
        DOCUMENT["tags"].as_array().unwrap().iter().map(|tag| tag["name"].as_str().unwrap()).collect();
    let schemes = &DOCUMENT["components"]["securitySchemes"];
    let mut ids = BTreeSet::new();
    for (what, operation) in operations() {
        let id = operation["operationId"].as_str().unwrap();
        assert!(ids.insert(id), "{what}: another operation is {id}");
        for text in ["summary", "description"] {
            assert!(operation[text].as_str().is_some_and(|text| !text.is_empty()), "{what} has no {text}");
        }
        for tag in operation["tags"].as_array().unwrap() {
            assert!(tags.contains(tag.as_str().unwrap()), "{what}: {tag} is not explained");
        }
        for scheme in
            operation["security"].as_array().unwrap().iter().flat_map(|one| one.as_object().unwrap().keys())
        {
            assert!(schemes.get(scheme).is_some(), "{what}: there is no {scheme}");
        }
        let parameters = operation["parameters"].as_array().into_iter().flatten().map(resolve);
        let in_path: BTreeSet<&str> =
            parameters.filter(|p| p["in"] == "path").map(|p| p["name"].as_str().unwrap()).collect();
        let in_pattern: BTreeSet<&str> =
            what.split('{').skip(1).filter_map(|rest| rest.split('}').next()).collect();
        assert_eq!(in_path, in_pattern, "{what}");
    }
}

/// The codes of failures that are not a provider's own, in the sources: words that stand as they are.
fn failure_codes() -> BTreeSet<String> {
    let mut folders = vec![std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/payments/src")];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() { folders.push(entry) } else { files.push(entry) }
        }
    }
    let is_code = |word: &&str| {
        word.contains('_') && word.chars().all(|letter| letter.is_ascii_lowercase() || letter == '_')
    };
    let of_file = |path: std::path::PathBuf| {
        let text = std::fs::read_to_string(path).unwrap();
        let before: Vec<&str> = text.split("\".to_owned()").collect();
        let words = before.iter().rev().skip(1).filter_map(|text| text.rsplit('"').next());
        words.filter(is_code).map(str::to_owned).collect::<Vec<_>>()
    };
    files
        .into_iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .flat_map(of_file)
        .collect()
}

#[test]
fn every_code_of_a_failure_is_explained() {
    let choices = DOCUMENT["components"]["schemas"]["FailureCode"]["anyOf"].as_array().unwrap();
    let explained: BTreeSet<String> =
        choices.iter().filter_map(|choice| choice["const"].as_str()).map(str::to_owned).collect();
    assert_eq!(failure_codes(), explained);
}

#[test]
fn it_is_of_this_version() {
    assert_eq!(DOCUMENT["openapi"], "3.1.1");
    assert_eq!(DOCUMENT["info"]["version"], env!("CARGO_PKG_VERSION"));
}
