//! What the checkout counts before an object is woken. An order's link is in the hands of strangers: whoever sends its form
//! again and again is held up by that order's own bucket, and by that of the address it is sent from. Neither is the
//! account's rate, so no link can stop a shop.
//!
//! The buckets are [rate limiting bindings](https://developers.cloudflare.com/workers/runtime-apis/bindings/rate-limit/) in
//! wrangler.toml; one that is left out holds nobody up.

use once::id::ObjectId;
use web::origin::network;

/// A bucket: the binding that counts, and under which name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// The name of the binding.
    pub binding: &'static str,
    /// What is counted together.
    pub key: String,
}

/// The buckets that a form of this order from this address (`CF-Connecting-IP`) fills.
pub fn buckets(order: ObjectId, address: Option<&str>) -> Vec<Bucket> {
    let order = Bucket { binding: "CHECKOUT_ORDER_LIMITER", key: format!("order:{}", order.to_hex()) };
    let from = |address: &str| Bucket {
        binding: "CHECKOUT_ADDRESS_LIMITER",
        key: format!("address:{}", network(address)),
    };
    // The address first: an attacker's own must not fill the bucket of somebody else's order.
    address.map(from).into_iter().chain([order]).collect()
}
