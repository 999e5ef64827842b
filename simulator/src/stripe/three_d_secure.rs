//! The 3-D Secure page of a PaymentIntent: it sends the browser back with `payment_intent`, `payment_intent_client_secret` and
//! `redirect_status`.

use crate::http::Reply;
use crate::pages;
use crate::provider::Call;
use crate::stripe::attempt::{self, Attempt};
use crate::stripe::currencies::format_amount;
use crate::stripe::errors::Outcome;
use crate::stripe::kinds::Kind;
use crate::stripe::payment_intent::{self, PaymentIntent, Status};
use crate::three_d_secure::{self, Decision, Waiting};

/// Answers the page and its two buttons. `None`: there is no such PaymentIntent.
pub fn answer(call: &mut Call, id: &str, decision: Decision) -> Outcome<Option<Reply>> {
    let Some(row) = call.store.find(Kind::PaymentIntent.into(), id)? else {
        return Ok(None);
    };
    // The charge after 3-D Secure belongs to the request that asked for it.
    let mut call = call.as_request(row.account, &row.request_id, row.idempotency_key.as_deref());
    call.unasked = true;
    call.settle()?;
    decide(&mut call, id, decision).map(Some)
}

fn decide(call: &mut Call, id: &str, decision: Decision) -> Outcome<Reply> {
    let intent = payment_intent::load(call, id)?;
    if intent.status != Status::RequiresAction {
        let done = format!("Nothing to do: this payment is {}.", intent.status);
        return Ok(Reply::html(200, pages::message(&done)));
    }
    if decision == Decision::Look {
        let amount = format_amount(intent.amount, &intent.currency);
        let waiting = Waiting { id: &intent.id, amount };
        return Ok(Reply::html(200, three_d_secure::page_of(&waiting)));
    }
    // Where to go back to is kept in next_action, which the decision clears.
    let return_url = return_url(&intent);
    let (secret, id) = (intent.client_secret.clone(), intent.id.clone());
    let status = match attempt::authenticated(call, intent, decision == Decision::Accept)? {
        Attempt::Accepted(_) => "succeeded",
        Attempt::Declined(_) => "failed",
    };
    let Some(return_url) = return_url else {
        return Ok(Reply::html(200, pages::message("Done. You can close this page.")));
    };
    let query = form_urlencoded::Serializer::new(String::new())
        .append_pair("payment_intent", &id)
        .append_pair("payment_intent_client_secret", &secret)
        .append_pair("redirect_status", status)
        .finish();
    Ok(Reply::see_other(three_d_secure::with_query(&return_url, &query)))
}

fn return_url(intent: &PaymentIntent) -> Option<String> {
    let redirect = intent.next_action.as_ref()?.get("redirect_to_url")?;
    redirect.get("return_url")?.as_str().map(str::to_owned)
}
