//! A provider of text messages that knows no idempotency keys: every call that is executed sends a message.
//!
//! `POST /sms/messages` with a Bearer key and `{to, body, reference?}` → 201 `{id, status: "queued"}`. `reference` is the caller's own name
//! for the message; the provider does not look at it, so two calls with one reference are two messages.
//!
//! Every error is `{error, message, safe_to_retry}`. `safe_to_retry: true` is the provider's word that **nothing was sent**; whoever does
//! not get that word, or gets no answer, does not know.

mod mailbox;
pub mod message;
mod requests;

use crate::failure::Outcome;
use crate::fault::Refusal;
use crate::http::{Reply, Request};
use crate::idempotency::InFlight;
use crate::mailbox::Section;
use crate::provider::{Admitted, Call, Provider};
use crate::store::Store;

/// Under `/sms/`.
pub struct Sms;

impl Provider for Sms {
    fn name(&self) -> &'static str {
        "sms"
    }

    fn path_prefix(&self) -> &'static str {
        "/sms/"
    }

    fn admit(
        &self,
        _store: &mut dyn Store,
        _in_flight: &InFlight,
        _now_ms: i64,
        request: &Request,
        _request_id: &str,
    ) -> Result<Admitted, Box<Reply>> {
        requests::admit(request)
    }

    fn refuse(&self, _request: &Request, _request_id: &str, _now_ms: i64, refusal: Refusal) -> Reply {
        requests::refuse(refusal.common())
    }

    fn broken(&self, _request: &Request, _request_id: &str, _now_ms: i64, message: &str) -> Reply {
        requests::broken(message)
    }

    fn view(&self, call: &mut Call, path: &[&str]) -> Outcome<Option<Reply>> {
        match path {
            ["messages"] => mailbox::list(call.store, call.request.query_value("reference")).map(Some),
            _ => Ok(None),
        }
    }

    fn mailbox(&self, store: &dyn Store) -> Outcome<Option<Section>> {
        mailbox::section(store).map(Some)
    }
}
