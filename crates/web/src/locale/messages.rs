//! The messages: which there are, and which values stand in them.
//!
//! A language is one file with a value for each of them, so that a message that is missing does not compile. A value stands in braces:
//! `Pay {total}`; a test compares those of each language with the ones that are declared here. None needs a plural: whatever is counted
//! is more than one.

use payments::payment::locale::Locale;

/// Makes [`Messages`] of its list: what is said as it stands, and what has values.
macro_rules! messages {
    (plain { $($plain:ident,)* } filled { $($filled:ident($($value:ident),+),)* }) => {
        /// All that a customer reads, in one language. What each says is told by its English.
        #[allow(missing_docs, reason = "the English message is the documentation")]
        #[derive(Debug)]
        pub struct Messages {
            pub locale: Locale,
            $(pub $plain: &'static str,)*
            $(pub(super) $filled: &'static str,)*
        }

        #[allow(missing_docs, reason = "the English message is the documentation")]
        impl Messages {
            $(pub fn $filled(&self, $($value: &str),+) -> String {
                fill(self.$filled, &[$((stringify!($value), $value)),+])
            })*

            /// Each with its name, and with the names of its values.
            #[cfg(test)]
            pub(super) fn all(&self) -> Vec<(&'static str, &'static str, &'static [&'static str])> {
                vec![
                    $((stringify!($plain), self.$plain, &[]),)*
                    $((stringify!($filled), self.$filled, &[$(stringify!($value)),+]),)*
                ]
            }
        }
    };
}

messages! {
    plain {
        // The chrome of each page.
        skip, demo, demo_text, about, api,
        // The form.
        your_order, to_pay_for_order, card_needs_look, address_needs_look, change_this, choose_card, enter_card, card_form_loading, email_wrong,
        what_you_buy, pay_by_card, card_brands, needs_javascript, test_cards, email_label, optional, reserved_now, paid_once,
        item, quantity, price, amount, total,
        // The demo's cards.
        card_succeeds, card_needs_bank, card_declined, card_lacks_funds, card_expired,
        // Before the bank's page, and after it without an order.
        at_the_bank, not_paid_yet, confirm_at_bank, continue_to_bank, another_card, nothing_before, given_up_first,
        card_not_used, card_not_used_text, or_another_card, not_given_up, return_to_shop, being_processed, do_not_pay_again,
        // The receipt.
        order, thank_you, order_placed, refund_under_way, was_refunded, paid, reserved, goes_back, went_back, nothing_taken,
        being_charged, being_freed, charge_failed,
        refund_pending, refunded, refunded_pending, you_pay, card, placed_on, paid_on, reference, details, payment, at_provider,
        in_demo_mail, mailbox, questions, say_reference, charged_once, reserved_once, back_to_shop, another_cart, what_happened,
        // While the outcome is not known.
        confirming_title, confirming, could_not_confirm, no_answer_from_bank, on_its_way, not_twice, may_close, looks_again,
        stop_reloading, looks_on, check_now,
        // Pages that say no.
        back_to_start, load_again, request, show_order, link_broken, shop_gone,
        not_found, not_found_text, link_expired, link_expired_text, link_over, link_replaced, link_replaced_text, link_ended, link_ended_text,
        tried_too_often, tried_too_often_text, giving_back, giving_back_text, not_given_back, not_given_back_text, flooded, flooded_text, foreign_form, foreign_form_text, unreadable_form,
        unreadable_form_text, not_now, not_now_text, cannot_show, cannot_show_text,
        // Above the form.
        unreachable, unreachable_text, shop_busy, shop_busy_text, too_often_text, form_expired, form_expired_text, form_not_here,
        form_not_here_text, wait_first, tries_failed, try_card_now, form_changed,
        given_up, nothing_charged, pay_below, in_a_second, not_sent, not_sent_text, try_another_card,
        // Why a payment came to nothing.
        declined, not_confirmed, failed, called_off, lacks_funds, over_limit, expired, wrong_expiry, wrong_number, wrong_cvc,
        wrong_address, needs_pin, not_allowed, no_reason, bank_unreachable, too_many_tries, duplicate, confirmation_failed,
        not_in_time, less_than_amount, not_captured, wrong_currency, earlier_try,
        // What the scripts say.
        a_few_seconds, paying, lost_retry, no_answer_retry, try_again, got_lost, moment_check, lost_check, no_answer_check,
        checking_card, card_form_lost,
        // The receipt's email.
        mail_paid, mail_refunded, mail_voided, receipt_total, receipt_refund, receipt_not_charged,
    }
    filled {
        fact(name, value),
        pay(total),
        place_order(total),
        refunded_in_full(amount, on, pending),
        refunded_in_part(amount, on, pending),
        refund_on(date),
        taken_of(total),
        receipt_goes_to(email),
        in_seconds(seconds),
        in_minutes(minutes),
        try_card_later(later),
        foreign_fields(fields),
        subject_paid(amount),
        subject_refunded(amount),
        subject_voided(amount),
        mail_paid_on(date),
        mail_refunded_on(date),
        mail_voided_on(date),
        sent_to(email),
    }
}

impl Messages {
    /// Sentences one after the other; an empty one is left out.
    pub fn sentences(&self, sentences: &[&str]) -> String {
        let said: Vec<&str> = sentences.iter().copied().filter(|sentence| !sentence.is_empty()).collect();
        said.join(if self.locale == Locale::Ja { "" } else { " " })
    }
}

/// Puts the values into their places, each where its name stands in braces.
fn fill(message: &str, values: &[(&str, &str)]) -> String {
    let mut parts = message.split('{');
    let mut filled = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once('}').unwrap_or(("", part));
        let value = values.iter().find(|(known, _)| *known == name);
        filled.push_str(value.map_or("", |(_, value)| value));
        filled.push_str(rest);
    }
    filled
}
