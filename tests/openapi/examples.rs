//! What the document and its page show as an example of a request or an answer is one. Patterns and formats are judged in
//! `tests/worker/docs.test.mjs`, by a validator of JSON Schema.

use std::sync::LazyLock;

use paid_once::edge::openapi::page;
use serde_json::Value;
use web::problem::Kind;

use crate::{DOCUMENT, operations, resolve, resolve_name, walk};

/// The page as production has it, and as the demo has it.
static PAGES: LazyLock<[String; 2]> =
    LazyLock::new(|| [false, true].map(|is_demo| page(&DOCUMENT, is_demo).unwrap()));

/// What of a value is not as its schema says. A member that no schema names is a mistake, too: answers have no others.
fn faults(schema: &'static Value, value: &Value, at: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut demand = |holds: bool, what: String| {
        if !holds {
            found.push(format!("{at}: {what}"));
        }
    };
    let number = |keyword: &str| schema[keyword].as_u64();
    demand(schema.get("const").is_none_or(|only| only == value), format!("is not {}", schema["const"]));
    if let Some(words) = schema["enum"].as_array() {
        demand(words.contains(value), format!("{value} is none of {words:?}"));
    }
    let types: Vec<&str> = match &schema["type"] {
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        name => name.as_str().into_iter().collect(),
    };
    demand(types.is_empty() || types.iter().any(|name| is_of(name, value)), format!("is no {types:?}"));
    if let Some(amount) = value.as_u64() {
        demand(number("minimum").is_none_or(|least| amount >= least), format!("{amount} is too small"));
        demand(number("maximum").is_none_or(|most| amount <= most), format!("{amount} is too large"));
    }
    if let Some(text) = value.as_str() {
        let length = u64::try_from(text.chars().count()).unwrap();
        demand(number("minLength").is_none_or(|least| length >= least), format!("{text} is too short"));
        demand(number("maxLength").is_none_or(|most| length <= most), format!("{text} is too long"));
    }
    if let Some(items) = value.as_array() {
        let length = u64::try_from(items.len()).unwrap();
        demand(number("minItems").is_none_or(|least| length >= least), "has too few entries".to_owned());
        demand(number("maxItems").is_none_or(|most| length <= most), "has too many entries".to_owned());
    }
    if let Some(members) = value.as_object() {
        for name in schema["required"].as_array().into_iter().flatten() {
            demand(members.contains_key(name.as_str().unwrap()), format!("has no {name}"));
        }
    }
    let of_one_choice = |choices: &'static Value| -> Vec<usize> {
        let choices = choices.as_array().into_iter().flatten();
        choices.map(|choice| faults(choice, value, at).len()).collect()
    };
    for keyword in ["oneOf", "anyOf"].into_iter().filter(|keyword| schema.get(*keyword).is_some()) {
        let fitting = of_one_choice(&schema[keyword]).into_iter().filter(|faults| *faults == 0).count();
        let fits = if keyword == "oneOf" { fitting == 1 } else { fitting > 0 };
        demand(fits, format!("fits {fitting} schemas of {keyword}: {value}"));
    }
    if let Some(target) = schema["$ref"].as_str() {
        found.extend(faults(resolve_name(target), value, at));
    }
    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
        if let Some(items) = schema.get("items") {
            found.extend(faults(items, item, &format!("{at}/{index}")));
        }
    }
    if let Some(properties) = schema["properties"].as_object() {
        for (name, member) in value.as_object().into_iter().flatten() {
            match (properties.get(name), schema.get("allOf")) {
                (Some(schema), _) => found.extend(faults(schema, member, &format!("{at}/{name}"))),
                // A problem has the members of all problems, too.
                (None, Some(_)) => {}
                (None, None) => found.push(format!("{at}: {name} is not foreseen")),
            }
        }
    } else if let Some(schema) = schema.get("additionalProperties").filter(|schema| schema.is_object()) {
        for (name, member) in value.as_object().into_iter().flatten() {
            found.extend(faults(schema, member, &format!("{at}/{name}")));
        }
    }
    found
}

fn is_of(name: &str, value: &Value) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        name => panic!("the document has no type {name}"),
    }
}

/// An article of a page, by its id.
fn article<'a>(page: &'a str, id: &str) -> &'a str {
    let (_, from) =
        page.split_once(&format!("<article id=\"{id}\"")).unwrap_or_else(|| panic!("{id} is not shown"));
    from.split("</article>").next().unwrap()
}

fn unescaped(html: &str) -> String {
    let signs = [("&#34;", "\""), ("&#39;", "'"), ("&#60;", "<"), ("&#62;", ">"), ("&#38;", "&")];
    signs.iter().fold(html.to_owned(), |text, (escaped, sign)| text.replace(escaped, sign))
}

/// The examples in a part of a page.
fn examples(html: &str) -> Vec<Value> {
    let of_details = html.split("<details class=\"example\">").skip(1);
    let code = of_details.map(|rest| rest.split_once("<code>").unwrap().1.split("</code>").next().unwrap());
    code.map(|code| serde_json::from_str(&unescaped(code)).unwrap()).collect()
}

/// The request to paste in an article.
fn curl(article: &str) -> Option<String> {
    let code = article.split_once("<pre")?.1.split_once("<code>")?.1.split("</code>").next()?;
    Some(unescaped(code)).filter(|code| code.contains("curl "))
}

/// The parts of an operation's article: what is before the answers, and each answer by its status.
fn parts(article: &str) -> (&str, Vec<(&str, &str)>) {
    let (request, answers) = article.split_once("<h4>Answers</h4>").unwrap();
    let of_status = answers.split("<dt>").filter_map(|part| {
        let (status, _) = part.split_once("</dt>")?;
        status.parse::<u16>().ok()?;
        let (_, from) = answers.split_once(&format!("<dt>{status}</dt>"))?;
        let next = from.match_indices("<dt>").find(|(at, _)| {
            from[at + 4..].split("</dt>").next().is_some_and(|text| text.parse::<u16>().is_ok())
        });
        Some((status, next.map_or(from, |(at, _)| &from[..at])))
    });
    (request, of_status.collect())
}

/// What a schema says of its members, if it does.
fn says_members(schema: &'static Value) -> bool {
    resolve(schema).get("properties").is_some()
}

#[test]
fn a_request_and_an_answer_are_shown_as_their_schemas_say() {
    let mut faulty = Vec::new();
    let mut count = 0;
    for (what, operation) in operations() {
        let id = operation["operationId"].as_str().unwrap();
        for page in PAGES.iter() {
            let (request, answers) = parts(article(page, id));
            let body =
                operation["requestBody"]["content"].as_object().and_then(|content| content.values().next());
            let mut judge = |shown: Vec<Value>, schema: &'static Value, part: &str, is_due: bool| {
                assert!(shown.len() <= 1, "{what}, {part}");
                if shown.is_empty() && is_due {
                    faulty.push(format!("{what}, {part}: nothing is shown"));
                }
                for example in shown {
                    count += 1;
                    faulty.extend(faults(schema, &example, &format!("{what}, {part}")));
                }
            };
            if let Some(body) = body {
                // What browsers and providers send is not for pasting.
                let is_due = curl(request).is_some() && says_members(&body["schema"]);
                judge(examples(request), &body["schema"], "request", is_due);
            }
            for (status, html) in answers {
                let content = &resolve(&operation["responses"][status])["content"]["application/json"];
                // The document itself is not shown in itself.
                let is_due = !content.is_null() && says_members(&content["schema"]) && id != "openapi";
                judge(examples(html), &content["schema"], status, is_due);
            }
        }
    }
    assert!(faulty.is_empty(), "{}", faulty.join("\n"));
    assert!(count > 80, "{count} examples");
}

#[test]
fn schemas_and_problems_are_shown_as_they_are() {
    let mut faulty = Vec::new();
    for (name, schema) in DOCUMENT["components"]["schemas"].as_object().unwrap() {
        let id = schema.pointer("/properties/type/const").and_then(Value::as_str);
        let id = id.and_then(|uri| uri.strip_prefix("/problems/")).unwrap_or(name);
        let is_problem = Kind::from_slug(id).is_some();
        for page in PAGES.iter() {
            let shown = examples(article(page, id));
            assert!(shown.len() == 1 || !is_problem, "{name}");
            faulty.extend(shown.iter().flat_map(|example| faults(schema, example, name)));
        }
    }
    assert!(faulty.is_empty(), "{}", faulty.join("\n"));
}

/// For programs: what stands beside a schema or in it.
#[test]
fn the_documents_examples_are_what_their_schemas_say() {
    let mut faulty = Vec::new();
    let mut count = 0;
    walk(&DOCUMENT, "#", &mut |at, value| {
        if at.ends_with("/properties") {
            return;
        }
        let mut judge = |schema: &'static Value, example: &Value| {
            count += 1;
            faulty.extend(faults(schema, example, at));
        };
        for example in value["examples"].as_array().into_iter().flatten() {
            judge(value, example);
        }
        if let (Some(schema), Some(example)) = (value.get("schema"), value.get("example")) {
            judge(schema, example);
        }
    });
    assert!(faulty.is_empty(), "{}", faulty.join("\n"));
    assert!(count > 60, "{count} examples");
}

/// The example of an answer, as the page shows it.
fn answered(id: &str, status: &str) -> Value {
    let (_, answers) = parts(article(&PAGES[0], id));
    let (_, html) = answers.iter().find(|(known, _)| *known == status).unwrap();
    examples(html).remove(0)
}

fn asked(id: &str) -> Value {
    examples(parts(article(&PAGES[0], id)).0).remove(0)
}

#[test]
fn an_answer_is_what_its_request_asked_for() {
    let (asked_for, paid) = (asked("createPayment"), answered("createPayment", "201"));
    for name in ["amount", "currency", "description", "order_id"] {
        assert_eq!(paid[name], asked_for[name], "{name}");
    }

    let (asked_for, captured) = (asked("capturePayment"), answered("capturePayment", "200"));
    assert_eq!(captured["amount_captured"], asked_for["amount"]);
    assert_eq!((&captured["status"], &captured["capture"]), (&"succeeded".into(), &false.into()));
    let capturing = answered("capturePayment", "202");
    assert_eq!(
        (&capturing["pending_operation"]["type"], &capturing["pending_operation"]["amount"]),
        (&"capture".into(), &asked_for["amount"])
    );

    let (voided, voiding) = (answered("voidPayment", "200"), answered("voidPayment", "202"));
    assert_eq!(voided["status"], "canceled");
    assert_eq!(voiding["pending_operation"]["type"], "void");
    for payment in [&capturing, &voiding] {
        assert_eq!(payment["status"], "requires_capture");
    }
    for payment in [&capturing, &voided, &voiding] {
        assert_eq!((&payment["amount_captured"], &payment["amount_capturable"]), (&0.into(), &0.into()));
    }
    for payment in [&paid, &captured, &capturing, &voided, &voiding] {
        assert_eq!(payment["tries"][0]["status"], payment["status"]);
    }

    for id in ["refundPayment", "refundPaymentAlias"] {
        let (asked_for, refunded) = (asked(id), answered(id, "201"));
        for name in ["amount", "reason"] {
            assert_eq!(refunded[name], asked_for[name], "{name}");
        }
    }

    let (asked_for, session) = (asked("createCheckoutSession"), answered("createCheckoutSession", "201"));
    for name in ["order_id", "currency"] {
        assert_eq!(session[name], asked_for[name], "{name}");
    }
    let line = &asked_for["lines"][0];
    let total = line["unit_amount"].as_u64().unwrap() * line["quantity"].as_u64().unwrap();
    assert_eq!(session["amount"], total);

    for status in ["200", "201"] {
        let (asked_for, customer) = (asked("putCustomer"), answered("putCustomer", status));
        for name in ["name", "payment_method"] {
            assert_eq!(customer[name], asked_for[name], "{name}");
        }
    }
}

/// The names of the shell's variables in a text.
fn variables(code: &str) -> Vec<&str> {
    let is_of_name = |sign: char| sign.is_ascii_uppercase() || sign.is_ascii_digit() || sign == '_';
    let after = code.split('$').skip(1);
    let names = after.map(|rest| &rest[..rest.find(|sign| !is_of_name(sign)).unwrap_or(rest.len())]);
    names.filter(|name| !name.is_empty()).collect()
}

/// An id of a payment that was never made is 404: what is pasted has what the answer before said.
#[test]
fn a_request_to_paste_has_variables_that_the_page_explains_and_no_made_up_ids() {
    let mut used = Vec::new();
    for (page, who) in PAGES.iter().zip(["$TOKEN", "user@example.com"]) {
        let explained = article(page, "variables");
        for (what, operation) in operations() {
            let id = operation["operationId"].as_str().unwrap();
            let Some(code) = curl(article(page, id)) else { continue };
            assert!(!code.contains("/pay_") && !code.contains("/re_"), "{what}: {code}");
            let address = code.split("curl -i ").nth(1).unwrap().lines().next().unwrap();
            assert!(!address.contains('{'), "{what}: {code}");
            assert!(code.contains(who) || code.contains("$ADMIN_TOKEN"), "{what}: {code}");
            for name in variables(&code) {
                assert!(explained.contains(&format!("<code>{name}</code>")), "{what}: ${name}");
                used.push(name.to_owned());
            }
        }
        let terms = explained.split("<dt><code>").skip(1).map(|rest| rest.split("</code>").next().unwrap());
        let unused: Vec<&str> = terms.filter(|term| !used.iter().any(|name| name == term)).collect();
        assert!(unused.is_empty(), "{unused:?} are explained and not used");
    }
}
