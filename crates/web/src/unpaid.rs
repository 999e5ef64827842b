//! Why a payment came to nothing, in our own words for the person who pays. A provider's are for the merchant: they may name its own
//! interface, or tell a thief that the card is reported stolen.

use crate::locale::Messages;
use crate::pages::Notice;

/// Why, as far as the person is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The card was declined, and nothing more is known.
    Declined,
    /// It did not go through, and nothing more is known.
    Failed,
    /// It was called off.
    CalledOff,
    /// What is on the card does not suffice.
    LacksFunds,
    /// The card's limit.
    OverLimit,
    /// The card's date.
    Expired,
    /// Its date was entered wrong.
    WrongExpiry,
    /// Its number was entered wrong.
    WrongNumber,
    /// Its security code was entered wrong.
    WrongCvc,
    /// The bank knows another address.
    WrongAddress,
    /// The bank asks for the PIN.
    NeedsPin,
    /// The card is not for this.
    NotAllowed,
    /// The bank does not say why. Of a card that is lost, stolen or under suspicion nothing more is told to whoever holds it.
    Unsaid,
    /// The bank could not be reached.
    BankUnreachable,
    /// It was tried too often.
    TooManyTries,
    /// The bank takes it for one that it has seen.
    Duplicate,
    /// The bank could not confirm who it was.
    NotConfirmed,
    /// Nobody confirmed it in time.
    NotInTime,
    /// The card has less than the whole.
    LessThanAmount,
    /// What was reserved could not be taken.
    NotCaptured,
    /// It cannot be paid in this currency.
    WrongCurrency,
    /// A try before is not over.
    EarlierTry,
}

/// Why a payment failed with these codes. The issuer's own reason says more than what happened to the payment; what is not known is a card
/// that was declined, or a payment that did not go through.
pub fn reason(declined: bool, code: &str, decline_code: Option<&str>) -> Reason {
    let known = decline_code.and_then(known).or_else(|| known(code));
    known.unwrap_or(if declined { Reason::Declined } else { Reason::Failed })
}

/// What is said of one code, if it has words of its own.
fn known(code: &str) -> Option<Reason> {
    Some(match code {
        "insufficient_funds" => Reason::LacksFunds,
        "card_velocity_exceeded" | "withdrawal_count_limit_exceeded" => Reason::OverLimit,
        "expired_card" => Reason::Expired,
        "invalid_expiry_month" | "invalid_expiry_year" => Reason::WrongExpiry,
        "incorrect_number" | "invalid_number" => Reason::WrongNumber,
        "incorrect_cvc" | "invalid_cvc" => Reason::WrongCvc,
        "incorrect_zip" | "incorrect_address" => Reason::WrongAddress,
        "incorrect_pin"
        | "invalid_pin"
        | "pin_try_exceeded"
        | "offline_pin_required"
        | "online_or_offline_pin_required" => Reason::NeedsPin,
        "card_not_supported"
        | "currency_not_supported_by_card"
        | "service_not_allowed"
        | "not_permitted"
        | "transaction_not_allowed"
        | "invalid_amount" => Reason::NotAllowed,
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
        | "testmode_decline" => Reason::Unsaid,
        "approve_with_id"
        | "issuer_not_available"
        | "processing_error"
        | "reenter_transaction"
        | "try_again_later" => Reason::BankUnreachable,
        "card_decline_rate_limit_exceeded" => Reason::TooManyTries,
        "duplicate_transaction" => Reason::Duplicate,
        "authentication_required"
        | "authentication_not_handled"
        | "payment_intent_authentication_failure" => Reason::NotConfirmed,
        "payment_intent_payment_attempt_expired" => Reason::NotInTime,
        "partially_authorized" => Reason::LessThanAmount,
        "payment_canceled" => Reason::CalledOff,
        "capture_failed" => Reason::NotCaptured,
        "currency_not_supported" => Reason::WrongCurrency,
        "earlier_try_open" => Reason::EarlierTry,
        "not_executed" | "payment_not_completed" | "provider_rejected" => Reason::Failed,
        _ => return None,
    })
}

impl Reason {
    /// A title in a few words, and one sentence; that is empty if the title says it all.
    pub const fn words(self, t: &Messages) -> (&'static str, &'static str) {
        match self {
            Self::Declined => (t.declined, ""),
            Self::Failed => (t.failed, ""),
            Self::CalledOff => (t.called_off, ""),
            Self::LacksFunds => (t.declined, t.lacks_funds),
            Self::OverLimit => (t.declined, t.over_limit),
            Self::Expired => (t.declined, t.expired),
            Self::WrongExpiry => (t.declined, t.wrong_expiry),
            Self::WrongNumber => (t.declined, t.wrong_number),
            Self::WrongCvc => (t.declined, t.wrong_cvc),
            Self::WrongAddress => (t.declined, t.wrong_address),
            Self::NeedsPin => (t.declined, t.needs_pin),
            Self::NotAllowed => (t.declined, t.not_allowed),
            Self::Unsaid => (t.declined, t.no_reason),
            Self::BankUnreachable => (t.declined, t.bank_unreachable),
            Self::TooManyTries => (t.declined, t.too_many_tries),
            Self::Duplicate => (t.declined, t.duplicate),
            Self::NotConfirmed => (t.not_confirmed, t.confirmation_failed),
            Self::NotInTime => (t.failed, t.not_in_time),
            Self::LessThanAmount => (t.declined, t.less_than_amount),
            Self::NotCaptured => (t.failed, t.not_captured),
            Self::WrongCurrency => (t.failed, t.wrong_currency),
            Self::EarlierTry => (t.failed, t.earlier_try),
        }
    }
}

/// The same above a form: what happened, that nothing was charged, and what to do. With `edited`, what was sent had other entries than the
/// payment that failed. Where the next try `must_wait`, the form says itself until when.
pub fn notice(t: &Messages, reason: Reason, edited: bool, must_wait: bool) -> Notice {
    if edited {
        return Notice::new("warning", t.not_sent, t.not_sent_text);
    }
    let (title, sentence) = reason.words(t);
    let closing = if must_wait { t.nothing_charged } else { t.try_another_card };
    Notice::new("error", title, t.sentences(&[sentence, closing]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::locale::Locale;
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
        assert_eq!(reason(true, "card_declined", Some("insufficient_funds")), Reason::LacksFunds);
        assert_eq!(reason(true, "card_declined", Some("new_word")), Reason::Unsaid);
        assert_eq!(reason(true, "new_code", None), Reason::Declined);
        assert_eq!(reason(false, "adyen_new_code", None), Reason::Failed);
        assert_eq!(reason(true, "payment_intent_authentication_failure", None), Reason::NotConfirmed);
    }

    #[test]
    fn every_language_says_what_happened_and_that_nothing_was_charged() {
        for locale in Locale::ALL {
            let t = Messages::of(locale);
            let told = notice(t, Reason::LacksFunds, false, false);
            assert_eq!(told.title, t.declined);
            assert!(
                told.text.starts_with(t.lacks_funds) && told.text.ends_with(t.try_another_card),
                "{told:?}"
            );
            assert_eq!(notice(t, Reason::Failed, false, false).text, t.try_another_card);
            assert_eq!(notice(t, Reason::Failed, false, true).text, t.nothing_charged);
            assert!(t.try_another_card.starts_with(t.nothing_charged), "{locale:?}");
        }
    }

    #[test]
    fn who_holds_a_stolen_card_is_not_told() {
        let told = |code| reason(true, "card_declined", Some(code));
        for code in ["lost_card", "stolen_card", "fraudulent", "pickup_card"] {
            assert_eq!(told(code), told("generic_decline"), "{code}");
        }
    }
}
