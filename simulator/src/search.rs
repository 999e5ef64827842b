//! Search: <https://docs.stripe.com/search>. Made to be as treacherous as the real one.
//!
//! A PaymentIntent is found only [`INDEXED_AFTER_MS`] after it was made, so read-after-write fails here as it does at Stripe; what is found
//! is shown as it is now. Clauses are joined by `AND`; fields are `metadata['k']`, `status`, `currency`, `customer`, `amount`, `created`.

use serde_json::{Value, json};

use crate::call::Call;
use crate::errors::{ApiError, Failure, Outcome};
use crate::lists;
use crate::params::{Params, excerpt};
use crate::payment_intents::PaymentIntent;
use crate::store::{Kind, Query};

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
    Status,
    Currency,
    Customer,
    Amount,
    Created,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Comparison {
    Is,
    Above,
    AtLeast,
    Below,
    AtMost,
}

/// `GET /v1/payment_intents/search`
pub fn payment_intents(call: &mut Call, params: &Params) -> Outcome<Value> {
    params.allow(&["limit", "page", "query"])?;
    let clauses = parse(params.required("query")?)?;
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
        let rows = call.list(Query { before_seq, limit: CHUNK, ..Query::all(Kind::PaymentIntent) })?;
        let Some(oldest) = rows.last() else {
            return Ok(found(data, None));
        };
        before_seq = Some(oldest.seq);
        for row in &rows {
            if row.created_ms > indexed_until_ms {
                continue;
            }
            let intent: PaymentIntent = serde_json::from_str(&row.body)?;
            if !clauses.iter().all(|clause| clause.matches(&intent, row.created_ms)) {
                continue;
            }
            if data.len() == limit {
                return Ok(found(data, last_seq));
            }
            last_seq = Some(row.seq);
            data.push(serde_json::from_str(&row.body)?);
        }
    }
}

/// The Search shape; a next page there is only where more was seen.
fn found(data: Vec<Value>, next: Option<i64>) -> Value {
    json!({
        "object": "search_result",
        "data": data,
        "has_more": next.is_some(),
        "next_page": next.map(|seq| seq.to_string()),
        "url": "/v1/payment_intents/search",
    })
}

impl Clause {
    fn matches(&self, intent: &PaymentIntent, created_ms: i64) -> bool {
        let text = |actual: Option<&str>| match actual {
            Some(actual) => actual == self.value,
            None => self.value == "null",
        };
        let number = |actual: i64| {
            self.value.parse::<i64>().is_ok_and(|wanted| match self.comparison {
                Comparison::Is => actual == wanted,
                Comparison::Above => actual > wanted,
                Comparison::AtLeast => actual >= wanted,
                Comparison::Below => actual < wanted,
                Comparison::AtMost => actual <= wanted,
            })
        };
        let holds = match &self.field {
            Field::Metadata(key) => text(intent.metadata.get(key).map(String::as_str)),
            Field::Status => text(Some(intent.status.as_str())),
            Field::Currency => text(Some(&intent.currency)),
            Field::Customer => text(intent.customer.as_deref()),
            Field::Amount => number(intent.amount),
            Field::Created => number(created_ms.div_euclid(1000)),
        };
        holds != self.negated
    }
}

fn parse(query: &str) -> Outcome<Vec<Clause>> {
    let clauses =
        split_clauses(query).into_iter().map(|text| clause(text.trim()).ok_or_else(|| unreadable(query)));
    let clauses = clauses.collect::<Outcome<Vec<Clause>>>()?;
    if clauses.len() > MAX_CLAUSES {
        return Err(unreadable(query));
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

fn clause(text: &str) -> Option<Clause> {
    let (negated, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (field, rest) = if let Some(rest) = text.strip_prefix("metadata[") {
        let (key, rest) = quoted(rest)?;
        (Field::Metadata(key), rest.strip_prefix(']')?)
    } else {
        let end = text.find([':', '<', '>'])?;
        let field = match text.get(..end)? {
            "status" => Field::Status,
            "currency" => Field::Currency,
            "customer" => Field::Customer,
            "amount" => Field::Amount,
            "created" => Field::Created,
            _ => return None,
        };
        (field, text.get(end..)?)
    };
    let operators = [
        (">=", Comparison::AtLeast),
        ("<=", Comparison::AtMost),
        (">", Comparison::Above),
        ("<", Comparison::Below),
        (":", Comparison::Is),
    ];
    let (comparison, rest) = operators
        .iter()
        .find_map(|(operator, comparison)| rest.strip_prefix(operator).map(|rest| (*comparison, rest)))?;
    let numeric = matches!(field, Field::Amount | Field::Created);
    if comparison != Comparison::Is && !numeric {
        return None;
    }
    let value = match quoted(rest) {
        Some((value, "")) => value,
        _ if rest == "null" || (numeric && rest.parse::<i64>().is_ok()) => rest.to_owned(),
        _ => return None,
    };
    Some(Clause { negated, field, comparison, value })
}

fn quoted(text: &str) -> Option<(String, &str)> {
    let quote = text.chars().next().filter(|first| *first == '\'' || *first == '"')?;
    let (value, rest) = text.get(1..)?.split_once(quote)?;
    Some((value.to_owned(), rest))
}

fn unreadable(query: &str) -> Failure {
    ApiError::invalid(format!(
        "We were unable to parse your search query. Try using the format `metadata[\"key\"]:\"value\"` joined by AND: {}",
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
            parse("metadata['ride_id']:'a AND b' AND -status:\"canceled\" and amount>=500").unwrap();
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
        ] {
            assert!(parse(query).is_err(), "{query}");
        }
    }
}
