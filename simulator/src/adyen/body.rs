//! Adyen's JSON bodies: read strictly, as Adyen does. A field that a structure does not have is refused by name.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::adyen::currencies;
use crate::adyen::errors::{self, Fallible, Problem};
use crate::money;
use crate::text::excerpt;

/// Beyond it JSON numbers are not exact.
const MAX_VALUE: i64 = (1 << 53) - 1;

/// An amount.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Amount {
    /// Three letters, upper case.
    pub currency: String,
    /// In the smallest unit.
    pub value: i64,
}

impl Amount {
    /// Another amount of its currency.
    pub fn of(&self, value: i64) -> Self {
        Amount { currency: self.currency.clone(), value }
    }

    /// An amount of its currency in major units: `12.5` EUR, `1000` CLP.
    pub fn major(&self, value: i64) -> String {
        money::major(value, currencies::decimals(&self.currency).unwrap_or(2))
    }

    /// For a page.
    pub fn for_people(&self) -> String {
        let decimals = currencies::decimals(&self.currency).unwrap_or(2);
        money::format_minor(self.value, &self.currency.to_ascii_lowercase(), decimals)
    }
}

/// A body, which must be an object.
pub fn parse(bytes: &[u8]) -> Fallible<Value> {
    match serde_json::from_slice(bytes) {
        Ok(body @ Value::Object(_)) => Ok(body),
        Ok(_) => Err(Problem::malformed("The request body must be a JSON object.").into()),
        Err(error) => Err(Problem::malformed(&format!("The request body is no JSON: {error}")).into()),
    }
}

/// Reads a structure of which every field is known by name.
pub fn read<T: DeserializeOwned>(body: &Value, structure: &str, known: &[&[&str]]) -> Fallible<T> {
    let unknown: Vec<String> = body
        .as_object()
        .into_iter()
        .flat_map(Map::keys)
        .filter(|field| !known.iter().any(|fields| fields.contains(&field.as_str())))
        .map(|field| excerpt(field))
        .collect();
    if !unknown.is_empty() {
        let message = format!(
            "Structure of {structure} contains the following unknown fields: [{}]",
            unknown.join(", ")
        );
        return Err(Problem::malformed(&message).into());
    }
    serde_json::from_value(body.clone())
        .map_err(|error| Problem::malformed(&format!("{structure} cannot be read: {error}")).into())
}

/// The amount of a payment or a modification.
pub fn amount(amount: Option<Amount>) -> Fallible<Amount> {
    let amount = amount.ok_or_else(|| Problem::validation("100", "No amount specified"))?;
    if currencies::decimals(&amount.currency).is_none() {
        return Err(Problem::validation("138", "Unsupported currency specified").into());
    }
    if !(1..=MAX_VALUE).contains(&amount.value) {
        return Err(Problem::validation("137", "Invalid amount specified").into());
    }
    Ok(amount)
}

/// One of a closed set, or nothing.
pub fn choice(name: &str, value: Option<&str>, choices: &[&str]) -> Fallible<()> {
    match value {
        Some(value) if !choices.contains(&value) => {
            let message = format!("Invalid {name}: must be one of {}", choices.join(", "));
            Err(Problem::malformed(&message).into())
        }
        _ => Ok(()),
    }
}

/// The account that every request names.
pub fn merchant_account(account: Option<String>) -> Fallible<String> {
    let named = account.filter(|account| !account.is_empty());
    Ok(named.ok_or_else(errors::invalid_merchant_account)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adyen::errors::Failure;

    #[test]
    fn amounts_are_whole_positive_and_in_upper_case() {
        let code = |value: i64, currency: &str| match amount(Some(Amount {
            currency: currency.to_owned(),
            value,
        })) {
            Err(Failure::Refused(problem)) => problem.error_code,
            _ => "none",
        };
        assert_eq!(code(1000, "EUR"), "none");
        assert_eq!(code(1000, "eur"), "138");
        assert_eq!(code(1000, "XYZ"), "138");
        assert_eq!(code(1000, "MGA"), "138", "Stripe takes it, and Adyen does not");
        assert_eq!(code(9_999_999_900, "CLP"), "none", "a value is no 32-bit number");
        assert_eq!(code(0, "EUR"), "137");
        assert_eq!(code(-1, "EUR"), "137");
    }
}
