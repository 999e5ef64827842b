//! The 3-D Secure page of Adyen's payments: it sends the browser back with `redirectResult`.

use crate::adyen::errors::Fallible;
use crate::adyen::kinds::Kind;
use crate::adyen::payment::{PaymentStatus, find, save};
use crate::failure::Outcome;
use crate::http::Reply;
use crate::provider::Call;
use crate::three_d_secure::{self, Decision, Waiting};
use crate::{ids, pages};

/// Answers the page and its two buttons. `None`: there is no such payment.
pub fn answer(call: &mut Call, id: &str, decision: Decision) -> Outcome<Option<Reply>> {
    let Some(row) = call.store.find(Kind::Payment.into(), id)? else {
        return Ok(None);
    };
    // What follows belongs to the request that made the payment.
    let mut call = call.as_request(row.account, &row.request_id, row.idempotency_key.as_deref());
    call.settle()?;
    Ok(decide(&mut call, id, decision)?)
}

fn decide(call: &mut Call, id: &str, decision: Decision) -> Fallible<Option<Reply>> {
    let Some(mut payment) = find(call, id)? else {
        return Ok(None);
    };
    if payment.status != PaymentStatus::AwaitingShopper || payment.redirect.is_some() {
        return Ok(Some(Reply::html(200, pages::message("Nothing to do: this payment has been decided."))));
    }
    if decision == Decision::Look {
        let waiting = Waiting { id, amount: payment.amount.for_people() };
        return Ok(Some(Reply::html(200, three_d_secure::page_of(&waiting))));
    }
    let result = format!("{id}!{}", ids::word(call.ids, 24));
    payment.redirect = Some((result.clone(), decision == Decision::Accept));
    save(call, &payment)?;
    let query =
        form_urlencoded::Serializer::new(String::new()).append_pair("redirectResult", &result).finish();
    let return_url = payment.return_url.unwrap_or_default();
    Ok(Some(Reply::see_other(three_d_secure::with_query(&return_url, &query))))
}
