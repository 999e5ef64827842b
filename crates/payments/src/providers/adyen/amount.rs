//! An amount as Adyen writes it.

use super::minor_units;
use crate::payment::money::Currency;
use crate::providers::codec::UnsupportedMoney;
use serde::{Deserialize, Serialize};

/// In Adyen's minor units.
#[derive(Deserialize, PartialEq, Serialize)]
pub(super) struct AmountBody {
    pub(super) value: i64,
    pub(super) currency: String,
}

impl AmountBody {
    pub(super) fn new(amount_minor: u64, currency: Currency) -> Result<Self, UnsupportedMoney> {
        let value = minor_units::to_adyen(amount_minor, currency)?;
        Ok(Self { value, currency: currency.as_str().to_ascii_uppercase() })
    }

    /// In our minor units; `None` if no amount of ours is that.
    pub(super) fn minor(&self) -> Option<u64> {
        minor_units::from_adyen(self.value, &self.currency)
    }
}
