//! The keys that accounts of the registry have of their own at Stripe and at Adyen. They lie in D1, sealed; here they are opened, for a call each.
//!
//! - A payment of such an account goes with its key, or nowhere: a key that is missing, or that cannot be opened, is never replaced by
//!   `STRIPE_SECRET_KEY` or `ADYEN_API_KEY`. At Adyen it is used for the merchant account alone for which it was entered.
//! - An isolate keeps what it has read for `ACCOUNTS_CACHE_MS`, sealed. Of a secret it remembers what stands for it
//!   ([`Credential`](once::account::Credential)), which is written down with each send.
//! - While D1 cannot be read an isolate goes by what it knows, for ten minutes: so long a key that was removed may be used. One that leaked is rolled
//!   at its provider.

mod adyen;
mod known;
pub(crate) mod rows;

pub(crate) use adyen::base_of;
pub(crate) use known::{OwnKeys, Unreadable, forget, is_known, newest, of};
