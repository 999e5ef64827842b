//! What the providers tell by themselves: signed events, unordered, more than once, or never.
//!
//! An event is taken in by the object that it is about, once, and only forward. Where the provider can be asked (Stripe) it
//! is only the news that there is something to ask; where it cannot (Adyen) its content counts.

pub(crate) mod announcements;
pub(crate) mod lookup;
pub(crate) mod work;

pub use payments::payment::provider_event::{Event, EventKind, Ingested, OperationNotice};
pub use payments::providers::adyen::webhook as adyen;
pub use payments::providers::stripe::webhook as stripe;
