//! A ride, and what is asked for.

use crate::rides::id::RideId;
use payments::timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// What a ride costs: 2000 cents, $20.00.
pub const FARE_MINOR: u64 = 2000;
/// The currency of the fare, as the API writes it.
pub const FARE_CURRENCY: &str = "usd";

/// Degrees of latitude or longitude, in units of 10⁻⁷ degree (about a centimetre).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DegreesE7(pub i32);

impl DegreesE7 {
    /// Parses decimal degrees between −`limit` and `limit`.
    pub fn parse(text: &str, limit: i32) -> Option<Self> {
        let plain = text.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'-' | b'+' | b'.' | b'e' | b'E'))
            && text.len() <= 32;
        // Without other letters there is no `nan` and no `inf`; JSON writes small numbers as `1e-7`.
        let degrees: f64 = text.parse().ok().filter(|_| plain)?;
        if degrees.abs() > f64::from(limit) {
            return None;
        }
        #[allow(clippy::cast_possible_truncation)] // at most 180 · 10⁷
        Some(Self((degrees * 1e7).round() as i32))
    }

    /// In degrees.
    pub fn degrees(self) -> f64 {
        f64::from(self.0) / 1e7
    }
}

/// A place on Earth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Place {
    /// Latitude, −90 to 90 degrees.
    pub lat: DegreesE7,
    /// Longitude, −180 to 180 degrees.
    pub lon: DegreesE7,
}

impl Place {
    fn to_json(self) -> Value {
        json!({ "lat": self.lat.degrees(), "lon": self.lon.degrees() })
    }
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RideRequest {
    /// From where.
    pub origin: Place,
    /// To where.
    pub target: Place,
    /// What pays: the provider's token, from the form or from the account.
    pub payment_method: String,
    /// To whom the receipt goes.
    pub receipt_email: Option<String>,
}

/// How a ride stands.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum RideState {
    /// Booked, not paid yet.
    Created,
    /// Paid: exactly one charge exists.
    Paid {
        /// The provider's id of the payment, or ours where it has none.
        charge: String,
    },
    /// Not paid: no charge exists and none will.
    Unpaid(Unpaid),
}

/// Why a ride was not paid.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Unpaid {
    /// The provider's id of the payment, or ours, if there is one.
    pub charge: Option<String>,
    /// `card_declined`, `provider_rejected`, …
    pub code: String,
    /// The issuer's reason.
    pub decline_code: Option<String>,
    /// For the person who wanted to pay.
    pub message: String,
}

/// A ride.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Ride {
    /// Its public id.
    pub id: RideId,
    /// From where.
    pub origin: Place,
    /// To where.
    pub target: Place,
    /// How it stands.
    pub state: RideState,
    /// When it was booked, in ms since the epoch.
    pub created_at_ms: u64,
}

impl Ride {
    /// As the API shows it.
    pub fn to_json(&self) -> Value {
        let (status, charge) = match &self.state {
            RideState::Created => ("pending", None),
            RideState::Paid { charge } => ("paid", Some(charge)),
            RideState::Unpaid(unpaid) => ("unpaid", unpaid.charge.as_ref()),
        };
        json!({
            "id": self.id.to_string(),
            "object": "ride",
            "status": status,
            "amount": FARE_MINOR,
            "currency": FARE_CURRENCY,
            "origin": self.origin.to_json(),
            "target": self.target.to_json(),
            "charge": charge,
            "created_at": timestamp(self.created_at_ms),
        })
    }
}
