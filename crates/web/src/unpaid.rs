//! Why a payment came to nothing, in our own words for the person who pays. A provider's are for the merchant: they may name its own
//! interface, or tell a thief that the card is reported stolen.

use crate::pages::Notice;

/// What is said of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Words {
    /// A few words.
    pub title: &'static str,
    /// One sentence; empty if the title says it all.
    pub reason: &'static str,
}

const DECLINED: &str = "Your card was declined";
const NOT_CONFIRMED: &str = "Your bank could not confirm that it was you";
const FAILED: &str = "The payment did not go through";

/// What is said of these codes. The issuer's own reason says more than what happened to the payment; what has no words of its own is a card
/// that was declined, or a payment that did not go through.
pub fn words(declined: bool, code: &str, decline_code: Option<&str>) -> Words {
    let known = decline_code.and_then(known).or_else(|| known(code));
    known.unwrap_or(Words { title: if declined { DECLINED } else { FAILED }, reason: "" })
}

/// What is said of one code, if it has words of its own.
fn known(code: &str) -> Option<Words> {
    let (title, reason) = match code {
        "insufficient_funds" => (DECLINED, "The card has insufficient funds."),
        "card_velocity_exceeded" | "withdrawal_count_limit_exceeded" => {
            (DECLINED, "The card is over its limit.")
        }
        "expired_card" => (DECLINED, "The card has expired."),
        "invalid_expiry_month" | "invalid_expiry_year" => (DECLINED, "The card’s date of expiry is wrong."),
        "incorrect_number" | "invalid_number" => (DECLINED, "The card number is wrong."),
        "incorrect_cvc" | "invalid_cvc" => (DECLINED, "The card’s security code is wrong."),
        "incorrect_zip" | "incorrect_address" => {
            (DECLINED, "The address is not the one that the bank knows.")
        }
        "incorrect_pin"
        | "invalid_pin"
        | "pin_try_exceeded"
        | "offline_pin_required"
        | "online_or_offline_pin_required" => {
            (DECLINED, "The bank wants the card’s PIN, which cannot be given here.")
        }
        "card_not_supported"
        | "currency_not_supported_by_card"
        | "service_not_allowed"
        | "not_permitted"
        | "transaction_not_allowed"
        | "invalid_amount" => (DECLINED, "The card does not allow this payment."),
        // Of a card that is lost, stolen or under suspicion nothing more is told to whoever holds it.
        "card_declined"
        | "generic_decline"
        | "do_not_honor"
        | "do_not_try_again"
        | "call_issuer"
        | "fraudulent"
        | "lost_card"
        | "stolen_card"
        | "pickup_card"
        | "restricted_card"
        | "merchant_blacklist"
        | "security_violation"
        | "stop_payment_order"
        | "revocation_of_authorization"
        | "revocation_of_all_authorizations"
        | "invalid_account"
        | "new_account_information_available"
        | "no_action_taken"
        | "highest_risk_level"
        | "elevated_risk_level"
        | "testmode_decline" => (DECLINED, "Your bank does not say why; it will tell you if you ask."),
        "approve_with_id"
        | "issuer_not_available"
        | "processing_error"
        | "reenter_transaction"
        | "try_again_later" => {
            (DECLINED, "The card’s bank could not be reached. It may work in a few minutes.")
        }
        "card_decline_rate_limit_exceeded" => (DECLINED, "It was tried too often. It may work tomorrow."),
        "duplicate_transaction" => (DECLINED, "The bank takes it for a payment that it has just seen."),
        "authentication_required"
        | "authentication_not_handled"
        | "payment_intent_authentication_failure" => {
            (NOT_CONFIRMED, "The confirmation on your bank’s page failed, or was broken off.")
        }
        "payment_intent_payment_attempt_expired" => (FAILED, "It was not confirmed in time."),
        "partially_authorized" => (DECLINED, "The card has less than the whole amount."),
        "payment_canceled" => ("The payment was called off", ""),
        "capture_failed" => (FAILED, "The money that your bank had set aside could not be taken."),
        "currency_not_supported" => (FAILED, "This amount cannot be paid in this currency."),
        "earlier_try_open" => {
            (FAILED, "An earlier try is still being called off. It works in a few minutes.")
        }
        "not_executed" | "payment_not_completed" | "provider_rejected" => (FAILED, ""),
        _ => return None,
    };
    Some(Words { title, reason })
}

/// The same above a form: what happened, that nothing was charged, and what to do. With `edited`, what was sent had other entries than the
/// payment that failed.
pub fn notice(words: Words, edited: bool) -> Notice {
    if edited {
        return Notice {
            title: "Your changes were not sent".to_owned(),
            text: "This form had been used before, and that payment failed. Nothing was charged. Make your changes again \
                   below and pay."
                .to_owned(),
            tone: "warning",
        };
    }
    let space = if words.reason.is_empty() { "" } else { " " };
    Notice {
        title: words.title.to_owned(),
        text: format!(
            "{}{space}Nothing was charged. You can try again, for example with another card.",
            words.reason
        ),
        tone: "error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use payments::providers::adyen::refusal;

    /// <https://docs.stripe.com/declines/codes>, and the codes of an error that a card can cause.
    const OF_STRIPE: &str = "approve_with_id authentication_required call_issuer card_not_supported card_velocity_exceeded \
        do_not_honor do_not_try_again duplicate_transaction expired_card fraudulent generic_decline incorrect_number \
        incorrect_cvc incorrect_pin incorrect_zip insufficient_funds invalid_account invalid_amount invalid_cvc \
        invalid_expiry_month invalid_expiry_year invalid_number invalid_pin issuer_not_available lost_card \
        merchant_blacklist new_account_information_available no_action_taken not_permitted offline_pin_required \
        online_or_offline_pin_required pickup_card pin_try_exceeded processing_error reenter_transaction restricted_card \
        revocation_of_all_authorizations revocation_of_authorization security_violation service_not_allowed stolen_card \
        stop_payment_order testmode_decline transaction_not_allowed try_again_later withdrawal_count_limit_exceeded \
        card_declined card_decline_rate_limit_exceeded incorrect_address payment_intent_authentication_failure \
        payment_intent_payment_attempt_expired";

    /// What a payment fails with that no provider has said: those of the document's `FailureCode` that no capture, void or refund has.
    const OURS: &str = "authentication_required capture_failed currency_not_supported earlier_try_open not_executed \
        partially_authorized payment_canceled payment_not_completed provider_rejected";

    #[test]
    fn every_code_that_stripe_lists_and_every_one_of_ours_has_words() {
        let codes = OF_STRIPE.split_whitespace().chain(OURS.split_whitespace());
        let missing: Vec<&str> = codes.filter(|code| known(code).is_none()).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }

    #[test]
    fn every_code_that_adyens_answers_are_told_by_has_words() {
        let codes: Vec<&str> =
            (0..100).filter_map(|reason_code| refusal(&reason_code.to_string()).0).collect();
        assert!(codes.len() > 8, "{codes:?}");
        let missing: Vec<&&str> = codes.iter().filter(|code| known(code).is_none()).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }

    #[test]
    fn every_code_of_a_test_card_has_words() {
        let source = include_str!("../../../simulator/src/stripe/cards.rs");
        let (cards, _) = source.split_once("#[cfg(test)]").unwrap_or((source, ""));
        let first_words = |call: &'static str| {
            cards
                .split(call)
                .skip(1)
                .filter_map(|rest| rest.trim_start().strip_prefix('"')?.split('"').next())
        };
        let codes: Vec<&str> = first_words("decline(").chain(first_words("declined(")).collect();
        assert!(codes.len() > 8, "{codes:?}");
        let missing: Vec<&&str> = codes.iter().filter(|code| known(code).is_none()).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }

    #[test]
    fn the_issuers_reason_comes_first_and_what_is_not_known_says_nothing_wrong() {
        assert_eq!(
            words(true, "card_declined", Some("insufficient_funds")).reason,
            "The card has insufficient funds."
        );
        assert_eq!(words(true, "card_declined", Some("new_word")).title, DECLINED);
        assert_eq!(words(true, "new_code", None), Words { title: DECLINED, reason: "" });
        assert_eq!(words(false, "adyen_new_code", None), Words { title: FAILED, reason: "" });
        assert_eq!(words(true, "payment_intent_authentication_failure", None).title, NOT_CONFIRMED);
    }

    #[test]
    fn who_holds_a_stolen_card_is_not_told() {
        let told = |code| words(true, "card_declined", Some(code));
        for code in ["lost_card", "stolen_card", "fraudulent", "pickup_card"] {
            assert_eq!(told(code), told("generic_decline"), "{code}");
        }
    }
}
