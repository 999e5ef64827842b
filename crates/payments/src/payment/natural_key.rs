//! The keys that an operation makes of itself, where its client sends none.

use once::id::{Owner, digest};
use once::key::KeyHash;

/// A key that the operation itself makes, where the client sends none: the order that is paid, the payment's only capture,
/// a refund's reason and amount. Two such requests are one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NaturalKey(String);

impl NaturalKey {
    /// An order is paid once.
    pub fn order(order_id: &str) -> Self {
        Self(format!("order:{order_id}"))
    }

    /// A payment is captured once in each of its tries: what came of an earlier one says nothing about this.
    pub fn capture(attempt: u32) -> Self {
        Self::of_try("capture", attempt)
    }

    /// And voided once.
    pub fn void(attempt: u32) -> Self {
        Self::of_try("void", attempt)
    }

    fn of_try(name: &str, attempt: u32) -> Self {
        Self(if attempt <= 1 { name.to_owned() } else { format!("{name}:{attempt}") })
    }

    /// Each try of an order that waits for the bank is given up once.
    pub fn give_up(attempt: u32) -> Self {
        Self(format!("give_up:{attempt}"))
    }

    /// The requests about a customer that have something to do, one after the other.
    pub fn customer(number: u32) -> Self {
        Self(format!("customer:{number}"))
    }

    /// For one reason an amount is given back once; `None` is all that is left.
    pub fn refund(reason: &str, amount_minor: Option<u64>) -> Self {
        let amount = amount_minor.map_or_else(|| "all".to_owned(), |minor| minor.to_string());
        Self(format!("refund:{reason}:{amount}"))
    }

    /// What is stored in its place. No key that a client can send has the same.
    pub fn hash(&self, owner: &Owner) -> KeyHash {
        KeyHash(base16ct::lower::encode_string(&digest(&[
            b"natural key",
            owner.to_text().as_bytes(),
            self.0.as_bytes(),
        ])))
    }
}

/// The name of the Durable Object in which all tries to pay an order meet.
pub fn order_object_name(owner: &Owner, order_id: &str) -> String {
    let hash = digest(&[b"order", owner.to_text().as_bytes(), order_id.as_bytes()]);
    format!("order:{}", base16ct::lower::encode_string(&hash))
}
