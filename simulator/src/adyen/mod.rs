//! Adyen: Checkout API v71, as far as card payments need it. <https://docs.adyen.com/api-explorer/Checkout/71>
//!
//! - A payment is answered at once: 200 with a `resultCode`, refusals too.
//! - A capture, a cancel or a refund is only *received* (201). Whether it succeeds is told later by a webhook; here `notifications` and
//!   the ledger say it at once.
//! - There is nothing to read a payment with, so a caller that lost an answer has to ask again under the same key.
//!
//! Reports of payouts are there for whoever has a key (`reports`).
//!
//! What is answered 200 or 201 is kept under the key; a problem is not, for nothing had begun. `transient-error: true` stands on what may be
//! tried again under the same key: <https://docs.adyen.com/development-resources/api-idempotency>

mod actions;
mod body;
mod cards;
mod companies;
mod currencies;
mod errors;
pub mod kinds;
mod ledger;
mod modification;
mod modifications;
mod notifications;
mod payment;
mod payment_request;
mod payments;
mod reports;
mod requests;
mod signature;
mod three_d_secure;

use crate::failure::Outcome;
use crate::fault::Refusal;
use crate::http::{Reply, Request};
use crate::idempotency::{InFlight, KeyRules};
use crate::ids::{self, Ids};
use crate::ledger::{Filter, Ledger};
use crate::provider::{Action, Admitted, Call, EventSource, Provider};
use crate::store::{Row, Store};
use crate::three_d_secure::Decision;
use kinds::Kind;

/// Under `/adyen/`.
pub struct Adyen;

impl Provider for Adyen {
    fn name(&self) -> &'static str {
        requests::KEYS.provider
    }

    fn path_prefix(&self) -> &'static str {
        "/adyen/"
    }

    fn new_request_id(&self, ids: &mut dyn Ids) -> String {
        ids::word(ids, 16).to_ascii_uppercase()
    }

    fn keys(&self) -> Option<&'static KeyRules> {
        Some(&requests::KEYS)
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

    fn refuse(&self, request: &Request, request_id: &str, _now_ms: i64, refusal: Refusal) -> Reply {
        requests::refuse(request, request_id, refusal)
    }

    fn broken(&self, request: &Request, request_id: &str, _now_ms: i64, message: &str) -> Reply {
        requests::broken(request, request_id, message)
    }

    fn settle(&self, call: &mut Call, row: &Row) -> Outcome<()> {
        match row.kind.parse() {
            Ok(Kind::Payment) => Ok(payments::settle(call, serde_json::from_str(&row.body)?)?),
            Ok(Kind::Modification | Kind::Notification) | Err(_) => Ok(()),
        }
    }

    fn events(&self) -> Option<&dyn EventSource> {
        Some(&notifications::Notifications)
    }

    fn add_to_ledger(&self, store: &dyn Store, filter: &Filter, ledger: &mut Ledger) -> Outcome<()> {
        ledger::add(store, filter, ledger)
    }

    fn decimals(&self, currency: &str) -> u32 {
        currencies::decimals(currency).unwrap_or(2)
    }

    fn action<'p>(&self, path: &[&'p str]) -> Option<Action<'p>> {
        actions::find(path)
    }

    fn view(&self, call: &mut Call, path: &[&str]) -> Outcome<Option<Reply>> {
        let ["adyen", "notifications"] = path else { return Ok(None) };
        call.as_request(String::new(), "req_clock", None).settle()?;
        let payment = call.request.query_value("payment");
        Ok(Some(Reply::json(200, &notifications::show(call.store, payment)?)))
    }

    fn three_d_secure(&self, call: &mut Call, id: &str, decision: Decision) -> Outcome<Option<Reply>> {
        three_d_secure::answer(call, id, decision)
    }
}
