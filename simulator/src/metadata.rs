//! The metadata that a request carries, whichever provider it is for.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::http::Request;

/// What an object carries.
pub type Metadata = BTreeMap<String, String>;

/// The metadata that a request asks for: in a form with brackets, or in JSON. They are not checked here.
pub fn of_request(request: &Request) -> Metadata {
    #[derive(Deserialize)]
    struct Body {
        #[serde(default)]
        metadata: Metadata,
    }
    if let Ok(body) = serde_json::from_slice::<Body>(&request.body) {
        return body.metadata;
    }
    form_urlencoded::parse(&request.body)
        .filter_map(|(name, value)| {
            let name = name.strip_prefix("metadata[")?.strip_suffix(']')?;
            Some((name.to_owned(), value.into_owned()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_requests_metadata_are_read_at_any_provider() {
        let read = |body: &str| of_request(&Request { body: body.as_bytes().to_vec(), ..Request::default() });
        let one = Metadata::from([("lab".to_owned(), "a b".to_owned())]);
        assert_eq!(read("amount=1&metadata[lab]=a+b"), one);
        assert_eq!(read("metadata%5Blab%5D=a%20b"), one);
        assert_eq!(read(r#"{"reference": "x", "metadata": {"lab": "a b"}}"#), one);
        for without in ["", "amount=1", "{}", "[1]", r#"{"metadata": 7}"#, "metadata=7"] {
            assert!(read(without).is_empty(), "{without}");
        }
    }
}
