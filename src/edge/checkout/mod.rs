//! The checkout: one order has one page, at `/checkout/{link}`, whatever becomes of it.
//!
//! A merchant's server asks for the link ([`request`]). It is the order itself, signed ([`order_token`]): nothing is
//! stored before somebody pays, and whoever has the link may pay and see the receipt. The page needs no cookie. Each form
//! that it shows carries a fresh key ([`form_key`]); all of them meet in the order's one object, and that is why two
//! tabs with two keys charge once.

pub mod cart;
pub mod form_key;
pub mod limits;
pub(super) mod links;
pub mod order_token;
pub mod page;
pub mod request;
pub(super) mod serve;
pub(super) mod till;

use cart::Cart;
use payments::payment::locale::Locale;

/// An order that can be paid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// The merchant's id of it: an order is paid once, however many links it has.
    pub id: String,
    /// The API account that sells, and owns the payment.
    pub account: String,
    /// What is bought.
    pub cart: Cart,
    /// The shop's page that the receipt leads back to.
    pub return_url: Option<String>,
    /// The shop's page for who does not pay. Every page of the order that is not paid leads there.
    pub cancel_url: Option<String>,
    /// Until when it may be paid, in ms since the epoch.
    pub expires_at_ms: u64,
    /// Which of the order's links it is: the newest one wins. 0 where the order's object was not told of it.
    pub revision: u32,
    /// The language in which it is shown; without one the browser's.
    pub locale: Option<Locale>,
    /// Whether it is charged at once, or authorized only, to be captured by the shop.
    pub capture: bool,
}

impl Order {
    /// The shop's page for who does not pay, of a page that takes no card.
    pub fn back_url(&self) -> Option<&str> {
        self.cancel_url.as_deref().or(self.return_url.as_deref())
    }
}
