use once::fingerprint::Parameters;
use paid_once::edge::ride::{COORDINATES, places};
use payments::flows::ride::DegreesE7;
use proptest::prelude::*;

proptest! {
    #[test]
    fn degrees_survive_being_shown(e7 in -1_800_000_000..=1_800_000_000i32) {
        let degrees = DegreesE7(e7);
        prop_assert_eq!(DegreesE7::parse(&degrees.degrees().to_string(), 180), Some(degrees));
        prop_assert_eq!(DegreesE7::parse(&format!("{:.7}", degrees.degrees()), 180), Some(degrees));
    }

    #[test]
    fn degrees_past_the_limit_are_refused(whole in 0..1_000_000u32, part in 0..10_000_000u32, limit in 1..=180i32) {
        let text = format!("{whole}.{part:07}");
        let inside = (whole, part) <= (limit.unsigned_abs(), 0);
        prop_assert_eq!(DegreesE7::parse(&text, limit).is_some(), inside);
        prop_assert_eq!(DegreesE7::parse(&format!("-{text}"), limit).is_some(), inside);
    }

    #[test]
    fn only_decimals_are_degrees(text in ".{0,12}|[-0-9.]{0,40}|[-+0-9.eE]{0,8}") {
        if let Some(degrees) = DegreesE7::parse(&text, 90) {
            prop_assert!(text.len() <= 32 && text.bytes().all(|b| b.is_ascii_digit() || b"-+.eE".contains(&b)));
            prop_assert!(degrees.0.abs() <= 900_000_000);
        }
    }

    #[test]
    fn every_wrong_coordinate_is_named(wrong: [bool; 4]) {
        let pairs = COORDINATES
            .iter()
            .zip(wrong)
            .map(|((name, _), wrong)| ((*name).to_owned(), if wrong { "x" } else { "1.5" }.to_owned()));
        let expected: Vec<String> =
            COORDINATES.iter().zip(wrong).filter(|(_, w)| *w).map(|((name, _), _)| (*name).to_owned()).collect();
        let named = match places(&Parameters::Form(pairs.collect())) {
            Ok(_) => Vec::new(),
            Err(errors) => errors.into_iter().map(|error| error.field).collect(),
        };
        prop_assert_eq!(named, expected);
    }
}

#[test]
fn what_is_no_number_is_refused() {
    for text in [
        "",
        "-",
        ".",
        "NaN",
        "inf",
        "-inf",
        "1e2",
        "e1",
        "1e",
        "1,5",
        "0x1",
        " 1",
        "1 ",
        "--1",
        "1.2.3",
        "90.00000001",
    ] {
        assert_eq!(DegreesE7::parse(text, 90), None, "{text:?}");
    }
    assert_eq!(DegreesE7::parse("1e1", 90), Some(DegreesE7(100_000_000)));
    assert_eq!(DegreesE7::parse("-1e-7", 90), Some(DegreesE7(-1)));
    assert_eq!(DegreesE7::parse("-90", 90), Some(DegreesE7(-900_000_000)));
    assert_eq!(DegreesE7::parse("-0", 90), Some(DegreesE7(0)));
}
