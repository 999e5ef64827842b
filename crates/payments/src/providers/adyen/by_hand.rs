//! What an operator has seen in the Customer Area, since Adyen cannot be asked.

use serde::Deserialize;

use super::answers::asked;
use super::notices::told;
use crate::engine::{ProviderCall, ProviderReply};
use crate::payment::provider_event::OperationNotice;
use crate::payment::result::CallKind;

/// How long a `pspReference` is.
const PSP_REFERENCE_LEN: usize = 16;

/// Whether this can be Adyen's id of what the call has made.
pub fn check_id(id: &str) -> Result<(), String> {
    let is_form = id.len() == PSP_REFERENCE_LEN
        && id.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit());
    if is_form { Ok(()) } else { Err("a PSP reference has 16 capital letters and digits".to_owned()) }
}

/// The answer that the call would have had: done as it was asked for, or refused.
pub fn believed(call: &ProviderCall, id: &str, is_done: bool) -> Result<ProviderReply, String> {
    if is_done && call.evidence.closing.is_some() {
        return Err("only a part is held: cancel it there, and say that it was refused".to_owned());
    }
    let (amount_minor, currency) = match call.kind {
        CallKind::Void => (0, String::new()),
        _ => {
            let amount = asked(call, None)?.amount;
            (amount.minor().ok_or("an amount that is none of ours")?, amount.currency)
        }
    };
    let payment = match call.kind {
        CallKind::Authorize => id,
        _ => call.request.path.split('/').nth(2).unwrap_or_default(),
    };
    let word = OperationNotice {
        provider_key: None,
        payment: payment.to_owned(),
        id: id.to_owned(),
        amount_minor,
        currency,
        success: is_done,
        reason: String::new(),
        undone: None,
        was_taken: false,
        at_ms: None,
        card: None,
    };
    let result = told(call, &word)?;
    Ok(ProviderReply { status: 200, result, request_id: Some(id.to_owned()) })
}

#[derive(Deserialize)]
struct Body {
    reference: String,
}

/// What to search for in the Customer Area.
pub fn reference(call: &ProviderCall) -> Option<String> {
    json_text::from_str::<Body>(&call.request.body).ok().map(|body| body.reference)
}
