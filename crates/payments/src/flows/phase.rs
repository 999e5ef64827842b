//! What the phases of all flows do alike.

use serde_json::Value;

use crate::engine::{End, Phase, ProviderCall, ProviderReply};
use crate::payment::Payment;
use crate::payment::result::ProviderResult;
use crate::transitions::audit::record;
use once::context::Bug;
use once::record::{Channel, StoredResponse};

/// What the phases do alike.
pub(crate) trait PhaseExt {
    fn channel(&self) -> Result<Channel, Bug>;
    fn payment(&mut self) -> Result<&mut Payment, Bug>;
    fn audit(&mut self, action: &'static str, subject: String, data: Value) -> Result<(), Bug>;
}

impl PhaseExt for Phase<'_> {
    fn channel(&self) -> Result<Channel, Bug> {
        Ok(self.key()?.channel)
    }

    fn payment(&mut self) -> Result<&mut Payment, Bug> {
        self.object_state.resource.payment.as_mut().ok_or_else(|| Bug("no payment".into()))
    }

    fn audit(&mut self, action: &'static str, subject: String, data: Value) -> Result<(), Bug> {
        let actor = self.key()?.owner.clone();
        record(self.object_state, actor, action, subject, data, self.ctx);
        Ok(())
    }
}

/// Why a call was not executed that has no answer.
pub(crate) fn not_executed_reason(phase: &Phase<'_>, name: &str) -> (String, String) {
    let is_it = |call: &&ProviderCall| call.key_id == phase.key_id && call.name == name && call.sends == 0;
    let payment = phase
        .object_state
        .resource
        .payment
        .as_ref()
        .filter(|_| phase.object_state.calls.iter().any(|call| is_it(&call)));
    match payment {
        Some(payment) => {
            let status = payment.status();
            ("payment_moved".to_owned(), format!("The payment was `{status}` before it could be sent."))
        }
        None => match refusal(phase, name).map(|reply| reply.result) {
            Some(
                ProviderResult::Rejected { code, message, .. }
                | ProviderResult::Declined { code, message, .. },
            ) => (code, message),
            _ => ("not_executed".to_owned(), "The provider has not executed it.".to_owned()),
        },
    }
}

/// With what a send of a call was refused that was not executed in the end.
pub(crate) fn refusal(phase: &Phase<'_>, name: &str) -> Option<ProviderReply> {
    let is_it = |call: &&ProviderCall| call.key_id == phase.key_id && call.name == name;
    phase.object_state.calls.iter().rfind(is_it)?.evidence.refusal.clone()
}

/// The end of an operation: JSON for the API, the way to a page for a form.
pub(crate) fn respond(
    phase: &Phase<'_>,
    status: u16,
    location: &str,
    page: Option<&str>,
    body: &Value,
) -> Result<End, Bug> {
    let media_type = if status < 400 { "application/json" } else { "application/problem+json" };
    Ok(End::Response(match phase.channel()? {
        Channel::Api => StoredResponse {
            status,
            headers: vec![
                ("content-type".to_owned(), media_type.to_owned()),
                ("location".to_owned(), location.to_owned()),
            ],
            body: body.to_string().into_bytes(),
        },
        Channel::Form => StoredResponse {
            status: 303,
            headers: vec![("location".to_owned(), page.unwrap_or(location).to_owned())],
            body: Vec::new(),
        },
    }))
}
