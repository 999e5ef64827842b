//! Stripe as it really behaves, as far as card payments need it. <https://docs.stripe.com/api>
//!
//! A request visits `requests` (`auth`, `routes`, `params`, keys) → one of `payment_intents` (`attempt`, `captures`, `cards`, `charges`),
//! `refunds` (`refunds_later`), `disputes`, `customers`, `events`, `search`. What is kept of an object stands beside it: `payment_intent`,
//! `charge`, `refund`.

mod accounts;
mod attempt;
pub mod auth;
mod balance;
mod captures;
mod cards;
mod charge;
mod charges;
mod currencies;
mod customers;
mod dashboard;
mod descriptors;
mod disputes;
mod errors;
mod events;
mod expand;
pub mod kinds;
mod ledger;
mod lists;
mod metadata;
mod method_options;
mod objects;
mod params;
mod payment_intent;
mod payment_intents;
mod payment_method_types;
mod payment_methods;
mod refund;
mod refunds;
mod refunds_later;
mod requests;
mod routes;
mod search;
mod three_d_secure;
mod unshown;
mod version;

use crate::failure::Outcome;
use crate::fault::Refusal;
use crate::http::{Reply, Request};
use crate::idempotency::{InFlight, KeyRules};
use crate::ledger::{Filter, Ledger};
use crate::provider::{Action, Admitted, Call, EventSource, Provider};
use crate::store::{Row, Store};
use crate::three_d_secure::Decision;
use kinds::Kind;
use payment_intent::{PaymentIntent, Status};

/// Under `/v1/`.
pub struct Stripe;

impl Provider for Stripe {
    fn name(&self) -> &'static str {
        requests::KEYS.provider
    }

    fn path_prefix(&self) -> &'static str {
        "/v1/"
    }

    fn keys(&self) -> Option<&'static KeyRules> {
        Some(&requests::KEYS)
    }

    fn keeps_server_errors(&self) -> bool {
        true
    }

    fn admit(
        &self,
        store: &mut dyn Store,
        in_flight: &InFlight,
        now_ms: i64,
        request: &Request,
        request_id: &str,
    ) -> Result<Admitted, Box<Reply>> {
        requests::admit(store, in_flight, now_ms, request, request_id)
    }

    fn refuse(&self, request: &Request, request_id: &str, now_ms: i64, refusal: Refusal) -> Reply {
        requests::refuse(request, request_id, now_ms, refusal)
    }

    fn broken(&self, request: &Request, request_id: &str, now_ms: i64, message: &str) -> Reply {
        requests::broken(request, request_id, now_ms, message)
    }

    fn settle(&self, call: &mut Call, row: &Row) -> Outcome<()> {
        let Ok(kind) = row.kind.parse() else { return Ok(()) };
        match kind {
            Kind::PaymentIntent => {
                let intent: PaymentIntent = serde_json::from_str(&row.body)?;
                if intent.status == Status::Processing {
                    match unshown::of(call, &intent.id)?.capturing {
                        Some(amount) => captures::decided(call, intent, amount)?,
                        None => attempt::decided(call, intent)?,
                    }
                } else {
                    payment_intents::expire(call, intent)?;
                }
            }
            Kind::Refund => refunds_later::settle(call, serde_json::from_str(&row.body)?)?,
            Kind::Charge => charges::settle(call, serde_json::from_str(&row.body)?)?,
            Kind::BalanceTransaction => balance::settle(call, serde_json::from_str(&row.body)?)?,
            Kind::Dispute => disputes::settle(call, serde_json::from_str(&row.body)?)?,
            Kind::Customer | Kind::PaymentMethod | Kind::Event | Kind::Unshown => {}
        }
        Ok(())
    }

    fn events(&self) -> Option<&dyn EventSource> {
        Some(&events::Events)
    }

    fn add_to_ledger(&self, store: &dyn Store, filter: &Filter, ledger: &mut Ledger) -> Outcome<()> {
        ledger::add(store, filter, ledger)
    }

    fn decimals(&self, currency: &str) -> u32 {
        currencies::decimals(&currency.to_ascii_lowercase())
    }

    fn action<'p>(&self, path: &[&'p str]) -> Option<Action<'p>> {
        dashboard::find(path)
    }

    fn three_d_secure(&self, call: &mut Call, id: &str, decision: Decision) -> Outcome<Option<Reply>> {
        Ok(three_d_secure::answer(call, id, decision)?)
    }
}
