//! The anchors of headings, as GitHub makes them, so that links between documents work here and there.

use std::collections::HashMap;

/// The anchors of one page so far.
#[derive(Debug, Default)]
pub(crate) struct Anchors {
    used: HashMap<String, usize>,
}

impl Anchors {
    /// The anchor of the next heading with this text: lower case, without punctuation, with a hyphen for each space, and a number if
    /// the same stood before.
    pub(crate) fn next(&mut self, text: &str) -> String {
        let anchor: String = text
            .chars()
            .flat_map(char::to_lowercase)
            .filter(|sign| sign.is_alphanumeric() || matches!(sign, ' ' | '-' | '_'))
            .map(|sign| if sign == ' ' { '-' } else { sign })
            .collect();
        let before = self.used.entry(anchor.clone()).or_default();
        *before += 1;
        match *before {
            1 => anchor,
            number => format!("{anchor}-{}", number - 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_anchor_is_the_text_in_lower_case_without_punctuation() {
        let mut anchors = Anchors::default();
        assert_eq!(anchors.next("What Adyen's answers mean"), "what-adyens-answers-mean");
        assert_eq!(anchors.next("Checkout: an order is paid once"), "checkout-an-order-is-paid-once");
        assert_eq!(anchors.next("8. Kill it"), "8-kill-it");
        assert_eq!(anchors.next("GET /idempotency-keys/{key}"), "get-idempotency-keyskey");
    }

    #[test]
    fn the_same_heading_again_is_numbered() {
        let mut anchors = Anchors::default();
        assert_eq!(anchors.next("Added"), "added");
        assert_eq!(anchors.next("Added"), "added-1");
        assert_eq!(anchors.next("Added"), "added-2");
    }
}
