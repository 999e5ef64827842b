//! Search: <https://docs.stripe.com/search>. Made to be as treacherous as the real one.
//!
//! What is searched for is found only [`INDEXED_AFTER_MS`] after it was made, so read-after-write fails here as it does at Stripe; what is
//! found is shown as it is now. Clauses are joined by `AND`; which fields they may name, `PAYMENT_INTENTS` and `CUSTOMERS` say. What
//! Stripe reads besides (`OR`, other fields) is refused, never passed over.

use serde_json::{Value, json};

use crate::provider::Call;
use crate::store::Query;
use crate::stripe::errors::{ApiError, Failure, Outcome};
use crate::stripe::kinds::Kind;
use crate::stripe::lists;
use crate::stripe::objects::Objects;
use crate::stripe::params::Params;
use crate::text::excerpt;

/// How long the index lags behind, always at its worst: a minute.
pub const INDEXED_AFTER_MS: i64 = 60_000;
/// Stripe's bound on clauses.
const MAX_CLAUSES: usize = 10;
/// Rows looked at in one read.
const CHUNK: i64 = 200;

#[derive(Debug, PartialEq)]
struct Clause {
    negated: bool,
    field: Field,
    comparison: Comparison,
    value: String,
}

#[derive(Debug, PartialEq)]
enum Field {
    Metadata(String),
    Text(String),
    Number(String),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Comparison {
    Is,
    Contains,
    Above,
    AtLeast,
    Below,
    AtMost,
}

/// What is searched, and by which fields besides `metadata['k']`.
struct Index {
    kind: Kind,
    url: &'static str,
    texts: &'static [&'static str],
    /// Of the texts, those of which a part can be searched for.
    parts: &'static [&'static str],
    numbers: &'static [&'static str],
}

const PAYMENT_INTENTS: Index = Index {
    kind: Kind::PaymentIntent,
    url: "/v1/payment_intents/search",
    texts: &["currency", "customer", "status"],
    parts: &[],
    numbers: &["amount", "created"],
};

const CUSTOMERS: Index = Index {
    kind: Kind::Customer,
    url: "/v1/customers/search",
    texts: &["email", "name", "phone"],
    parts: &["email", "name"],
    numbers: &["created"],
};

/// Characters that a part must have.
const MIN_PART_CHARS: usize = 3;

/// `GET /v1/payment_intents/search`
pub fn payment_intents(call: &mut Call, params: &Params) -> Outcome<Value> {
    search(call, params, &PAYMENT_INTENTS)
}

/// `GET /v1/customers/search`
pub fn customers(call: &mut Call, params: &Params) -> Outcome<Value> {
    search(call, params, &CUSTOMERS)
}

fn search(call: &mut Call, params: &Params, index: &Index) -> Outcome<Value> {
    params.allow(&["limit", "page", "query"])?;
    let clauses = parse(params.required("query")?, index)?;
    let limit = usize::try_from(lists::limit(params)?).unwrap_or(0);
    let mut before_seq = match params.text("page")? {
        None => None,
        Some(page) => {
            Some(page.parse().map_err(|_| ApiError::invalid("Invalid page token.").param("page").refused())?)
        }
    };
    let indexed_until_ms = call.now_ms - INDEXED_AFTER_MS;
    let mut data = Vec::new();
    let mut last_seq = None;
    loop {
        let rows = call.list(Query { before_seq, limit: CHUNK, ..Query::all(index.kind) })?;
        let Some(oldest) = rows.last() else {
            return Ok(found(index, data, None));
        };
        before_seq = Some(oldest.seq);
        for row in &rows {
            if row.created_ms > indexed_until_ms {
                continue;
            }
            let object: Value = serde_json::from_str(&row.body)?;
            if lists::is_deleted(&object) || !clauses.iter().all(|clause| clause.matches(&object)) {
                continue;
            }
            if data.len() == limit {
                return Ok(found(index, data, last_seq));
            }
            last_seq = Some(row.seq);
            data.push(object);
        }
    }
}

/// The Search shape; a next page there is only where more was seen.
fn found(index: &Index, data: Vec<Value>, next: Option<i64>) -> Value {
    json!({
        "object": "search_result",
        "data": data,
        "has_more": next.is_some(),
        "next_page": next.map(|seq| seq.to_string()),
        "url": index.url,
    })
}

impl Clause {
    fn matches(&self, object: &Value) -> bool {
        let text = |actual: Option<&str>| match actual {
            Some(actual) if self.comparison == Comparison::Contains => {
                actual.to_ascii_lowercase().contains(&self.value.to_ascii_lowercase())
            }
            Some(actual) => actual.eq_ignore_ascii_case(&self.value),
            None => self.value == "null" && self.comparison == Comparison::Is,
        };
        let number = |actual: i64| {
            self.value.parse::<i64>().is_ok_and(|wanted| match self.comparison {
                Comparison::Is => actual == wanted,
                Comparison::Contains => false,
                Comparison::Above => actual > wanted,
                Comparison::AtLeast => actual >= wanted,
                Comparison::Below => actual < wanted,
                Comparison::AtMost => actual <= wanted,
            })
        };
        let of = |name: &str| object.get(name);
        let holds = match &self.field {
            Field::Metadata(key) => {
                text(of("metadata").and_then(|metadata| metadata.get(key)).and_then(Value::as_str))
            }
            Field::Text(name) => text(of(name).and_then(Value::as_str)),
            Field::Number(name) => of(name).and_then(Value::as_i64).is_some_and(number),
        };
        holds != self.negated
    }
}

fn parse(query: &str, index: &Index) -> Outcome<Vec<Clause>> {
    let clauses = split_clauses(query)
        .into_iter()
        .map(|text| clause(text.trim(), index).ok_or_else(|| unreadable(query, index)));
    let clauses = clauses.collect::<Outcome<Vec<Clause>>>()?;
    if clauses.len() > MAX_CLAUSES {
        return Err(unreadable(query, index));
    }
    Ok(clauses)
}

/// Splits at ` AND `, though not inside of quotes.
fn split_clauses(query: &str) -> Vec<&str> {
    let mut clauses = Vec::new();
    let mut quote = None;
    let mut start = 0;
    for (index, character) in query.char_indices() {
        match quote {
            Some(open) if character == open => quote = None,
            Some(_) => {}
            None if character == '\'' || character == '"' => quote = Some(character),
            None => {
                let here = query.get(index..).unwrap_or_default();
                if index >= start && here.get(..5).is_some_and(|word| word.eq_ignore_ascii_case(" and ")) {
                    clauses.push(query.get(start..index).unwrap_or_default());
                    start = index + 5;
                }
            }
        }
    }
    clauses.push(query.get(start..).unwrap_or_default());
    clauses
}

fn clause(text: &str, index: &Index) -> Option<Clause> {
    let (negated, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (field, rest) = if let Some(rest) = text.strip_prefix("metadata[") {
        let (key, rest) = quoted(rest)?;
        (Field::Metadata(key), rest.strip_prefix(']')?)
    } else {
        let end = text.find([':', '~', '<', '>'])?;
        let name = text.get(..end)?;
        let field = if index.texts.contains(&name) {
            Field::Text(name.to_owned())
        } else if index.numbers.contains(&name) {
            Field::Number(name.to_owned())
        } else {
            return None;
        };
        (field, text.get(end..)?)
    };
    let operators = [
        (">=", Comparison::AtLeast),
        ("<=", Comparison::AtMost),
        (">", Comparison::Above),
        ("<", Comparison::Below),
        (":", Comparison::Is),
        ("~", Comparison::Contains),
    ];
    let (comparison, rest) = operators
        .iter()
        .find_map(|(operator, comparison)| rest.strip_prefix(operator).map(|rest| (*comparison, rest)))?;
    let numeric = matches!(field, Field::Number(_));
    let fits = match (comparison, &field) {
        (Comparison::Is, _) => true,
        (Comparison::Contains, Field::Text(name)) => index.parts.contains(&name.as_str()),
        (Comparison::Contains, Field::Metadata(_) | Field::Number(_)) => false,
        (_, Field::Metadata(_) | Field::Text(_)) => false,
        (_, Field::Number(_)) => true,
    };
    if !fits {
        return None;
    }
    let value = match quoted(rest) {
        Some((value, "")) => value,
        _ if rest == "null" || (numeric && rest.parse::<i64>().is_ok()) => rest.to_owned(),
        _ => return None,
    };
    if comparison == Comparison::Contains && value.chars().count() < MIN_PART_CHARS {
        return None;
    }
    Some(Clause { negated, field, comparison, value })
}

fn quoted(text: &str) -> Option<(String, &str)> {
    let quote = text.chars().next().filter(|first| *first == '\'' || *first == '"')?;
    let (value, rest) = text.get(1..)?.split_once(quote)?;
    Some((value.to_owned(), rest))
}

fn unreadable(query: &str, index: &Index) -> Failure {
    let fields = [index.texts, index.numbers].concat().join(", ");
    ApiError::invalid(format!(
        "We were unable to parse your search query. The simulator reads up to {MAX_CLAUSES} clauses such as `metadata[\"key\"]:\"value\"`, joined by \
         AND, over metadata, {fields}: {}",
        excerpt(query)
    ))
    .param("query")
    .refused()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn clauses_are_read_with_their_quotes_and_joined_by_and() {
        let clauses =
            parse("metadata['ride_id']:'a AND b' AND -status:\"canceled\" and amount>=500", &PAYMENT_INTENTS)
                .unwrap();
        assert_eq!(clauses.len(), 3);
        assert_eq!(clauses.first().unwrap().value, "a AND b");
        assert!(clauses.get(1).unwrap().negated);
        assert_eq!(clauses.get(2).unwrap().comparison, Comparison::AtLeast);
        for query in [
            "",
            "metadata[a]:'b'",
            "status>'x'",
            "foo:'x'",
            "metadata['a']:'b",
            "amount:x",
            "status:succeeded",
            "status~'succ'",
            "email:'a@b.test'",
            "status:'x' OR status:'y'",
        ] {
            assert!(parse(query, &PAYMENT_INTENTS).is_err(), "{query}");
        }
    }

    #[test]
    fn customers_are_searched_by_parts_of_three_characters_and_without_regard_to_case() {
        for (query, found) in [
            ("email:'ann@shop.test'", true),
            ("email:'shop.test'", false),
            ("email~'SHOP'", true),
            ("name~'nn L'", true),
            ("-name~'nn L'", false),
            ("phone:null", true),
            ("metadata['shop']:'7' AND created>1", true),
            ("metadata['shop']:'7' AND created>99", false),
        ] {
            let customer = json!({
                "email": "Ann@shop.test", "name": "Ann Lee", "phone": null, "metadata": { "shop": "7" }, "created": 10,
            });
            let clauses = parse(query, &CUSTOMERS).unwrap();
            assert_eq!(clauses.iter().all(|clause| clause.matches(&customer)), found, "{query}");
        }
        for query in ["email~'ab'", "phone~'123'", "metadata['shop']~'777'", "name>'a'", "description:'x'"] {
            assert!(parse(query, &CUSTOMERS).is_err(), "{query}");
        }
    }
}
