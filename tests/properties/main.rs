//! What must hold for every input of the parsers, the fingerprint and the provider's client.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    unreachable_pub,
    reason = "a test: a panic is its verdict, and nobody links to it"
)]

mod adyen;
mod check;
mod checkout;
mod config;
mod corpus;
mod fingerprint;
mod form_token;
mod http;
mod ids;
mod key;
mod metrics;
mod ride;
mod stripe;
mod times;
mod wake;
