//! What stands on a statement. <https://docs.stripe.com/get-started/account/statement-descriptors>

use crate::stripe::errors::{ApiError, Outcome};
use crate::stripe::params::Params;

/// With the account's own prefix a statement has no more room.
const MAX_CHARS: usize = 22;

/// For a card only a suffix can be said.
pub fn check(params: &Params, by_card: bool) -> Outcome<()> {
    if by_card && params.has("statement_descriptor") && !params.is_emptied("statement_descriptor") {
        return Err(refuse_for_card().refused());
    }
    for name in ["statement_descriptor", "statement_descriptor_suffix"] {
        if params.is_emptied(name) {
            continue;
        }
        if let Some(text) = params.text(name)? {
            check_text(name, text)?;
        }
    }
    Ok(())
}

/// The error for a whole descriptor of a card.
pub fn refuse_for_card() -> ApiError {
    ApiError::invalid(
        "The statement_descriptor parameter is not supported for the payment_method_type `card`. To set what stands on the card holder's \
         statement, use statement_descriptor_suffix instead.",
    )
    .param("statement_descriptor")
}

fn check_text(name: &str, text: &str) -> Outcome<()> {
    let wrong = if text.chars().count() > MAX_CHARS {
        format!("The {name} must have at most {MAX_CHARS} characters.")
    } else if text.contains(['<', '>', '\\', '\'', '"', '*']) {
        format!("The {name} may not contain any of the characters < > \\ ' \" *.")
    } else if !text.chars().any(char::is_alphabetic) {
        format!("The {name} must contain at least one letter.")
    } else {
        return Ok(());
    };
    Err(ApiError::invalid(wrong).param(name).refused())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_card_has_a_suffix_of_letters_and_no_descriptor() {
        let is_refused =
            |body: &str, by_card| check(&Params::parse(b"", body.as_bytes()).unwrap(), by_card).is_err();
        assert!(is_refused("statement_descriptor=SHOP", true));
        assert!(!is_refused("statement_descriptor=SHOP", false));
        assert!(!is_refused("statement_descriptor=", true));
        for (suffix, refused) in
            [("ORDER+7", false), ("12345", true), ("A*B", true), ("ABCDEFGHIJKLMNOPQRSTUVW", true)]
        {
            assert_eq!(
                is_refused(&format!("statement_descriptor_suffix={suffix}"), true),
                refused,
                "{suffix}"
            );
        }
    }
}
