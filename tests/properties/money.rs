//! Amounts and currencies: what is read is what is charged, and what people see is the same number.

use payments::payment::locale::Locale;
use payments::payment::money::for_people;
use payments::payment::money::{AMOUNT_MAX_MINOR, AmountMinor, Currency};
use proptest::prelude::*;

const KNOWN: [&str; 8] = ["usd", "eur", "gbp", "jpy", "krw", "kwd", "bhd", "huf"];

fn currency() -> impl Strategy<Value = Currency> {
    prop::sample::select(&KNOWN[..]).prop_map(|code| Currency::parse(code).unwrap())
}

proptest! {
    #[test]
    fn an_amount_is_digits_from_1_to_the_most(text in "[0-9]{0,12}|[-+ 0-9.,eEx]{0,8}|.{0,6}") {
        let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let number = text.trim_start_matches('0').parse::<u64>().ok().filter(|_| digits);
        let expected = number.filter(|number| (1..=AMOUNT_MAX_MINOR).contains(number));
        prop_assert_eq!(AmountMinor::parse(&text).ok().map(|amount| amount.get()), expected);
    }

    #[test]
    fn an_amount_survives_being_written(minor in 1..=AMOUNT_MAX_MINOR) {
        let amount = AmountMinor::new(minor).unwrap();
        prop_assert_eq!(AmountMinor::parse(&minor.to_string()), Ok(amount));
        prop_assert_eq!(serde_json::to_string(&amount).unwrap(), minor.to_string());
    }

    #[test]
    fn what_people_see_is_the_same_number(minor in 0..=AMOUNT_MAX_MINOR, currency in currency()) {
        let shown = for_people(Locale::En, minor, currency);
        let digits: String = shown.chars().filter(char::is_ascii_digit).collect();
        prop_assert_eq!(digits.parse::<u64>(), Ok(minor), "{}", shown);
        let decimals = shown.split_once('.').map_or(0, |(_, rest)| rest.chars().take_while(char::is_ascii_digit).count());
        prop_assert_eq!(decimals, currency.decimals() as usize, "{}", shown);
    }

    #[test]
    fn the_least_the_most_and_the_last_decimal_are_checked(minor in (1u32..=12).prop_flat_map(|digits| 1..10_u64.pow(digits)), currency in currency()) {
        let amount = AmountMinor::new(minor).unwrap();
        let rounds = currency.decimals() < 3 || minor % 10 == 0;
        prop_assert_eq!(amount.check_rounding(currency).is_ok(), rounds);
        let is_within = (currency.minimum_minor()..=currency.maximum_minor()).contains(&minor);
        prop_assert_eq!(amount.check(currency).is_ok(), rounds && is_within);
    }

    #[test]
    fn a_currency_is_three_letters_that_can_be_charged(text in "[a-zA-Z]{0,4}|.{0,4}") {
        if let Some(currency) = Currency::parse(&text) {
            prop_assert_eq!(currency.as_str(), text.to_ascii_lowercase());
            prop_assert_eq!(Currency::parse(currency.as_str()), Some(currency));
            prop_assert!(currency.minimum_minor() > 0 && [0, 2, 3].contains(&currency.decimals()));
        }
    }
}

#[test]
fn a_currency_is_read_in_either_case_and_no_other_word_is_one() {
    assert_eq!(Currency::parse("UsD"), Some(Currency::USD));
    for text in ["", "us", "usdd", "xxx", "us ", "a a", "€€€"] {
        assert_eq!(Currency::parse(text), None, "{text}");
    }
}
