//! Metadata and its limits: <https://docs.stripe.com/api/metadata>.

use crate::metadata::Metadata;
use crate::stripe::errors::{ApiError, Outcome};
use crate::stripe::params::{Param, Params};

/// Keys on one object.
const MAX_KEYS: usize = 50;
/// Characters of a key.
const MAX_KEY_CHARS: usize = 40;
/// Characters of a value.
const MAX_VALUE_CHARS: usize = 500;

/// The metadata after a request: new keys are added, empty values unset a key, an empty `metadata` unsets all.
pub fn merge(existing: &Metadata, params: &Params) -> Outcome<Metadata> {
    let invalid = |message: String| Err(ApiError::invalid(message).param("metadata").refused());
    if params.is_emptied("metadata") {
        return Ok(Metadata::new());
    }
    let mut merged = existing.clone();
    let Some(changes) = params.map("metadata")? else {
        return Ok(merged);
    };
    for (key, value) in changes.entries() {
        let Param::Text(value) = value else {
            return invalid("Metadata values must be strings.".to_owned());
        };
        if key.chars().count() > MAX_KEY_CHARS {
            return invalid(format!(
                "Metadata keys can be up to {MAX_KEY_CHARS} characters long; '{key}' is longer."
            ));
        }
        if value.chars().count() > MAX_VALUE_CHARS {
            return invalid(format!(
                "Metadata values can have up to {MAX_VALUE_CHARS} characters, but you passed in a value that is {} characters.",
                value.chars().count()
            ));
        }
        if value.is_empty() {
            merged.remove(key);
        } else {
            merged.insert(key.to_owned(), value.clone());
        }
    }
    if merged.len() > MAX_KEYS {
        return invalid(format!(
            "You can only have up to {MAX_KEYS} metadata keys on an object; you sent {}.",
            merged.len()
        ));
    }
    Ok(merged)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_added_replaced_and_unset() {
        let merged =
            |existing: &Metadata, body: &str| merge(existing, &Params::parse(b"", body.as_bytes()).unwrap());
        let first = merged(&Metadata::new(), "metadata[a]=1&metadata[b]=2").unwrap();
        let second = merged(&first, "metadata[a]=&metadata[b]=3&metadata[c]=4").unwrap();
        assert_eq!(
            second.into_iter().collect::<Vec<_>>(),
            [("b".to_owned(), "3".to_owned()), ("c".to_owned(), "4".to_owned())]
        );
        assert!(merged(&first, "metadata=").unwrap().is_empty());
        assert!(merged(&first, &format!("metadata[{}]=1", "k".repeat(41))).is_err());
        assert!(merged(&first, &format!("metadata[k]={}", "v".repeat(501))).is_err());
        let many: String = (0..51).map(|n| format!("metadata[k{n}]=v&")).collect();
        assert!(merged(&Metadata::new(), &many).is_err());
    }
}
