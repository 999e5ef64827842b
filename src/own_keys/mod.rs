//! The keys that accounts of the registry have of their own at Stripe. They lie in D1, sealed; here they are opened, for a call each.
//!
//! - A payment of such an account goes with its key, or nowhere: a key that is missing, or that cannot be opened, is never replaced by
//!   `STRIPE_SECRET_KEY`.
//! - An isolate keeps what it has read for `ACCOUNTS_CACHE_MS`, sealed. Of a secret it remembers what stands for it
//!   ([`Credential`](once::account::Credential)), which is written down with each send.
//! - While D1 cannot be read an isolate goes by what it knows, for ten minutes: so long a key that was removed may be used. One that leaked is rolled
//!   at Stripe.

mod known;
pub(crate) mod rows;

pub(crate) use known::{OwnKeys, Unreadable, forget, is_known, of};
