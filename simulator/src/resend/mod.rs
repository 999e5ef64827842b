//! Resend: sending an email, and reading it. <https://resend.com/docs/api-reference/emails/send-email>
//!
//! - `POST /resend/emails` → 200 `{id}`; the email is in the mailbox, `GET /_sim/mailbox`. `GET /resend/emails/{id}` reads it.
//! - What was sent is kept under its `Idempotency-Key` for 24 hours: a replay has the same id and sends nothing. An error keeps nothing, for
//!   nothing was sent; where a fault answers 500 *after* sending, the key has the id all the same.
//!
//! Errors are `{statusCode, name, message}`: <https://resend.com/docs/api-reference/errors>

pub mod email;
mod errors;
mod mailbox;
mod requests;

use crate::failure::Outcome;
use crate::fault::Refusal;
use crate::http::{Reply, Request};
use crate::idempotency::{InFlight, KeyRules};
use crate::mailbox::Section;
use crate::provider::{Admitted, Call, Provider};
use crate::store::Store;

/// Under `/resend/`.
pub struct Resend;

impl Provider for Resend {
    fn name(&self) -> &'static str {
        requests::KEYS.provider
    }

    fn path_prefix(&self) -> &'static str {
        "/resend/"
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
        _request_id: &str,
    ) -> Result<Admitted, Box<Reply>> {
        requests::admit(store, in_flight, now_ms, request)
    }

    fn refuse(&self, _request: &Request, _request_id: &str, _now_ms: i64, refusal: Refusal) -> Reply {
        requests::refuse(refusal.common())
    }

    fn broken(&self, _request: &Request, _request_id: &str, _now_ms: i64, message: &str) -> Reply {
        requests::broken(message)
    }

    fn view(&self, call: &mut Call, path: &[&str]) -> Outcome<Option<Reply>> {
        match *path {
            ["mailbox.json"] => mailbox::list(call.store).map(Some),
            ["mailbox", id] => mailbox::page(call.store, id).map(Some),
            _ => Ok(None),
        }
    }

    fn mailbox(&self, store: &dyn Store) -> Outcome<Option<Section>> {
        mailbox::section(store).map(Some)
    }
}
