//! Rocket Rides: the second user of the engine, beside payments.
//!
//! A ride is booked once, whoever asks how often: its flow runs on an object of its own ([`flow`], `object`), and its one foreign call is
//! the payments API, under a key made from the ride's id. All that has to do with the provider, unknown outcomes, webhooks, receipts and
//! refunds, is the payments Worker's; what it cannot answer yet is asked again by the ride's alarm, under the same key.

pub mod ask;
pub mod entries;
pub mod flow;
pub mod id;
pub mod pages;
pub mod payments_api;
pub mod ride;

mod booking;
pub(crate) mod form;
mod object;
mod pilot;
pub(crate) mod serve;

/// What books rides by the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Account {
    /// Its id, which is its token, too.
    pub id: &'static str,
    /// The payment method that pays its rides.
    pub payment_method: &'static str,
    /// To whom receipts go.
    pub email: Option<&'static str>,
}

/// The users of the article: their token is their address, and the second one's card is declined.
const USERS: [Account; 2] = [
    Account { id: "user@example.com", payment_method: "pm_card_visa", email: Some("user@example.com") },
    Account {
        id: "user-bad-source@example.com",
        payment_method: "pm_card_visa_chargeDeclined",
        email: Some("user-bad-source@example.com"),
    },
];

impl Account {
    /// Whose requests without credentials are in the lab.
    pub const ANONYMOUS: Self = Self { id: "anonymous", payment_method: "pm_card_visa", email: None };

    /// The account of a token.
    pub fn of(token: &str) -> Option<Self> {
        USERS.into_iter().find(|account| account.id == token)
    }
}
