//! What must hold for every input of the parsers, the fingerprint and the provider's client.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    unreachable_pub,
    reason = "a test: a panic is its verdict, and nobody links to it"
)]

mod account;
mod account_at_adyen;
mod adyen;
mod alarm;
mod card;
mod check;
mod checkout;
mod checkout_lines;
mod checkout_links;
mod checkout_pictures;
mod close;
mod config;
mod corpus;
mod currencies;
mod customer;
mod disbelieved;
mod edge_payment;
mod erasure;
mod fingerprint;
mod form_token;
mod http;
mod ids;
mod json;
mod key;
mod metrics;
mod metrics_points;
mod money;
mod old_ids;
mod order_link;
mod outbox;
mod patience;
mod payment;
mod provider_event;
mod read_model;
mod replay_cache;
mod replays;
mod return_key;
mod signing;
mod state_size;
mod stripe;
mod stripe_odd_answers;
mod stripe_payments;
mod support;
mod times;
mod trace;
mod tries;
mod webhooks;
