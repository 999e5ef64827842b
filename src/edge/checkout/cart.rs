//! What is bought. The total is always added up here, from the lines: never taken from a request.

use std::collections::BTreeSet;

use once::fingerprint::FieldError;
use once::sorted;
use payments::payment::money::{AMOUNT_MAX_MINOR, AmountMinor, Currency};
use web::image_url::ImageUrl;

/// The most lines that an order can have.
pub const LINES_MAX: usize = 20;
/// The most pieces of one line.
pub const QUANTITY_MAX: u32 = 999;
/// The longest name of an item, in characters.
pub const NAME_MAX_CHARS: usize = 120;

/// So many pieces of one item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// What it is, in the merchant's words.
    pub name: String,
    /// The price of one piece, in minor units; 0 for a gift.
    pub unit_minor: u64,
    /// How many: 1 to [`QUANTITY_MAX`].
    pub quantity: u32,
    /// Where its picture is. It sells nothing: without it the line is the same.
    pub image: Option<ImageUrl>,
}

impl Line {
    /// What the line comes to, in minor units; `None` if that is more than can be counted.
    pub fn total_minor(&self) -> Option<u64> {
        self.unit_minor.checked_mul(self.quantity.into())
    }
}

/// The lines of an order, and a total that can be charged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cart {
    currency: Currency,
    lines: Vec<Line>,
    total: AmountMinor,
}

impl Cart {
    /// Checks the lines and adds them up; the errors name every line that is wrong, as `lines[0].name`.
    pub fn new(currency: Currency, lines: Vec<Line>) -> Result<Self, Vec<FieldError>> {
        count(lines.len()).map_err(|message| vec![wrong("lines", message)])?;
        let errors = |(index, line)| check(line).into_iter().map(move |error| at_line(index, error));
        let errors: Vec<FieldError> = lines.iter().enumerate().flat_map(errors).collect();
        if !errors.is_empty() {
            return Err(errors);
        }
        let total = total(&lines, currency).map_err(|message| vec![wrong("lines", message)])?;
        Ok(Self { currency, lines, total })
    }

    /// In what all of it is priced.
    pub const fn currency(&self) -> Currency {
        self.currency
    }

    /// From top to bottom.
    pub fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// Where the pictures come from, each once.
    pub fn image_origins(&self) -> BTreeSet<&str> {
        sorted::set(self.lines.iter().filter_map(|line| line.image.as_ref()?.origin()))
    }

    /// What is to be paid.
    pub const fn total(&self) -> AmountMinor {
        self.total
    }
}

/// Whether an order can have so many lines.
pub(super) fn count(lines: usize) -> Result<(), String> {
    match lines {
        1..=LINES_MAX => Ok(()),
        _ => Err(format!("must be 1 to {LINES_MAX} lines")),
    }
}

/// What is wrong with a line by itself, by the names of its fields.
pub(super) fn check(line: &Line) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let characters = line.name.chars().count();
    if !(1..=NAME_MAX_CHARS).contains(&characters) || line.name.trim() != line.name {
        let rule = format!("must be 1 to {NAME_MAX_CHARS} characters, without spaces around them");
        errors.push(wrong("name", rule));
    } else if line.name.chars().any(char::is_control) {
        errors.push(wrong("name", "must be one line of text, without control characters"));
    }
    if line.unit_minor > AMOUNT_MAX_MINOR {
        errors.push(wrong("unit_amount", format!("must be from 0 to {AMOUNT_MAX_MINOR} minor units")));
    }
    if !(1..=QUANTITY_MAX).contains(&line.quantity) {
        errors.push(wrong("quantity", format!("must be from 1 to {QUANTITY_MAX}")));
    }
    errors
}

/// Says in which line it is.
pub(super) fn at_line(index: usize, error: FieldError) -> FieldError {
    wrong(&format!("lines[{index}].{}", error.field), error.message)
}

fn total(lines: &[Line], currency: Currency) -> Result<AmountMinor, String> {
    let sum = lines.iter().try_fold(0u64, |sum, line| sum.checked_add(line.total_minor()?));
    let in_words = |message: String| format!("come to a total that cannot be charged: it {message}");
    let amount = match sum {
        Some(0) => return Err("come to nothing: there is nothing to pay".to_owned()),
        Some(minor) => AmountMinor::new(minor),
        None => None,
    };
    amount
        .ok_or_else(|| format!("must be at most {AMOUNT_MAX_MINOR} minor units"))
        .and_then(|amount| amount.check(currency))
        .map_err(in_words)
}

pub(super) fn wrong(field: &str, message: impl Into<String>) -> FieldError {
    FieldError { field: field.to_owned(), message: message.into() }
}
