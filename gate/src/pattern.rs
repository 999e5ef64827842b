//! Which requests a route is about: `POST /cart/*/order`, `POST /?wc-ajax=checkout`.

use std::fmt;

use web::url::percent_decode;

/// A method, a path in which `*` stands for anything within a segment (at the end: for all that follows), and parameters that the query must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    method: String,
    path: String,
    query: Vec<String>,
}

impl Pattern {
    /// From its text. The error says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (method, address) = text
            .split_once(' ')
            .map(|(method, address)| (method.trim(), address.trim()))
            .filter(|(_, address)| address.starts_with('/'))
            .ok_or_else(|| {
                format!("`{text}` is no route: write a method and a path, such as `POST /checkout`")
            })?;
        if !matches!(method, "POST" | "PUT" | "PATCH" | "DELETE") {
            return Err(format!("`{text}`: the method must be POST, PUT, PATCH or DELETE, in capitals"));
        }
        let (path, query) = address.split_once('?').unwrap_or((address, ""));
        let query = query.split('&').filter(|part| !part.is_empty()).map(str::to_owned).collect();
        Ok(Self { method: method.to_owned(), path: path.to_owned(), query })
    }

    /// The path, as it was written.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Whether a request is one of these. `path` is percent-encoded, as it came.
    pub fn matches(&self, method: &str, path: &str, query: &str) -> bool {
        self.method == method
            && self.query.iter().all(|wanted| query.split('&').any(|part| part == wanted))
            && matches_path(&self.path, &normal(path))
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.path)?;
        if self.query.is_empty() { Ok(()) } else { write!(f, "?{}", self.query.join("&")) }
    }
}

/// A path without what changes nothing: encoded letters. One that cannot be decoded stays as it is.
fn normal(path: &str) -> String {
    percent_decode(path).unwrap_or_else(|| path.to_owned())
}

fn matches_path(pattern: &str, path: &str) -> bool {
    let (mut wanted, mut given) = (pattern.split('/').peekable(), path.split('/'));
    while let Some(part) = wanted.next() {
        if part == "*" && wanted.peek().is_none() {
            return given.next().is_some();
        }
        let Some(segment) = given.next() else { return false };
        if !matches_segment(part, segment) {
            return false;
        }
    }
    given.next().is_none()
}

/// `*` stands for any part of a segment, also for none.
fn matches_segment(pattern: &str, segment: &str) -> bool {
    let Some((before, after)) = pattern.split_once('*') else { return pattern == segment };
    let Some(rest) = segment.strip_prefix(before) else { return false };
    rest.char_indices()
        .map(|(at, _)| at)
        .chain([rest.len()])
        .any(|at| rest.get(at..).is_some_and(|rest| matches_segment(after, rest)))
}

/// Whether a name is this one; a star at the beginning or the end stands for anything.
pub fn is_like(known: &str, name: &str) -> bool {
    match (known.strip_prefix('*'), known.strip_suffix('*')) {
        (Some(end), _) => name.ends_with(end),
        (None, Some(beginning)) => name.starts_with(beginning),
        (None, None) => known == name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, address: &str) -> bool {
        let (path, query) = address.split_once('?').unwrap_or((address, ""));
        Pattern::parse(pattern).unwrap().matches("POST", path, query)
    }

    #[test]
    fn a_star_stands_for_a_segment_and_at_the_end_for_the_rest() {
        assert!(matches("POST /checkout", "/checkout"));
        assert!(!matches("POST /checkout", "/checkout/"));
        assert!(!matches("POST /checkout", "/checkout/x"));
        assert!(matches("POST /cart/*/order", "/cart/7/order"));
        assert!(!matches("POST /cart/*/order", "/cart/7/8/order"));
        assert!(matches("POST /v1/*", "/v1/payments/7/refunds"));
        assert!(!matches("POST /v1/*", "/v1"));
        assert!(matches("POST /reviews-*/add", "/reviews-12/add"));
        assert!(matches("POST /a*c*e", "/abcde"));
        assert!(!matches("POST /a*c*e", "/abde"));
    }

    #[test]
    fn the_query_must_have_what_is_named() {
        assert!(matches("POST /?wc-ajax=checkout", "/?lang=de&wc-ajax=checkout"));
        assert!(!matches("POST /?wc-ajax=checkout", "/?wc-ajax=add_to_cart"));
        assert!(!matches("POST /?wc-ajax=checkout", "/"));
    }

    #[test]
    fn an_encoded_letter_is_the_same_path() {
        assert!(matches("POST /checkout", "/%63heckout"));
    }

    #[test]
    fn what_is_no_route_is_refused_with_what_to_write() {
        for text in ["", "/checkout", "POST checkout", "post /checkout", "GET /checkout"] {
            assert!(Pattern::parse(text).unwrap_err().contains("POST"), "{text}");
        }
    }
}
