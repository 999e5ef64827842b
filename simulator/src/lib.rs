//! A Stripe of one's own, an Adyen beside it, and those who carry emails and text messages: stateful, with real idempotency, and with faults
//! on demand.
//!
//! It is a Worker of its own and shares no code with the Worker that it judges, so that it can contradict it. Everything that decides is
//! pure and is tested on the host; `object`, `delivery`, `sql` and `worker_entry` are the shell, compiled for wasm only.
//!
//! A request visits: `worker_entry` → `object` → `faults` → `api` → `stripe` (`auth`, `routes`, `params`, `idempotency`) → one of
//! `payment_intents` (`attempt`, `cards`, `charges`), `refunds`, `disputes`, `customers`, `events`, `search` → `store`. One of Adyen's goes on from `api`
//! to `adyen` (`body`, `idempotency`) → `payments` or `modifications` → `store`, an email or a text message to `resend` or `sms`. The control surface is `control`.
//! What happened is recorded by `events` and `adyen::notifications`, and sent by `webhooks` → `delivery`.

pub mod accounts;
pub mod adyen;
pub mod api;
pub mod attempt;
pub mod auth;
pub mod balance;
pub mod call;
pub mod cards;
pub mod charges;
pub mod clock;
pub mod control;
pub mod currencies;
pub mod customers;
pub mod dashboard;
pub mod disputes;
pub mod errors;
pub mod events;
pub mod expand;
pub mod faults;
pub mod http;
pub mod idempotency;
pub mod ids;
pub mod ledger;
pub mod lists;
pub mod mailbox;
pub mod metadata;
pub mod pages;
pub mod params;
pub mod payment_intents;
pub mod payment_methods;
pub mod provider;
pub mod refunds;
pub mod resend;
pub mod routes;
pub mod search;
pub mod signing;
pub mod sms;
pub mod store;
pub mod stripe;
pub mod three_d_secure;
pub mod webhooks;

#[cfg(target_arch = "wasm32")]
mod delivery;
#[cfg(target_arch = "wasm32")]
mod object;
#[cfg(target_arch = "wasm32")]
mod sql;
#[cfg(target_arch = "wasm32")]
mod worker_entry;
