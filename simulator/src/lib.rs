//! A Stripe of one's own, an Adyen beside it, and those who carry emails and text messages: stateful, with real idempotency, and with faults
//! on demand.
//!
//! It is a Worker of its own and shares no code with the Worker that it judges, so that it can contradict it. Everything that decides is
//! pure and is tested on the host; `shell` is the Worker.
//!
//! A request visits `shell::entry` → `shell::object` → `api` (`faults`) → its [`provider`] → `store`. Each provider stands in a folder of its
//! own: [`stripe`], [`adyen`], [`resend`] and [`sms`]. What they share (dispatch, faults, keys, ledger, webhooks, the control surface) knows
//! them only through the trait [`provider::Provider`]; `registry` lists them. Events that a provider records are sent by `webhooks`.

pub mod adyen;
pub mod api;
pub mod clock;
pub mod control;
pub mod digest;
pub mod failure;
pub mod fault;
pub mod faults;
pub mod http;
pub mod idempotency;
pub mod ids;
pub mod ledger;
pub mod mailbox;
pub mod memory;
pub mod metadata;
pub mod money;
pub mod pages;
pub mod provider;
pub mod registry;
pub mod resend;
pub mod sms;
pub mod store;
pub mod stripe;
pub mod text;
pub mod three_d_secure;
pub mod webhooks;

mod shell;
