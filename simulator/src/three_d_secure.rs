//! The 3-D Secure page that `next_action.redirect_to_url.url`, or Adyen's `action.url`, leads to.
//!
//! `GET /_sim/3ds/{id}` shows it; `POST …/accept` and `POST …/fail` decide and send the browser back to the `return_url` with
//! `payment_intent`, `payment_intent_client_secret` and `redirect_status`, or Adyen's `redirectResult`. A second decision changes nothing.

use crate::adyen;
use crate::attempt::{self, Attempt};
use crate::call::Call;
use crate::clock;
use crate::currencies::format_amount;
use crate::errors::{Failure, Outcome};
use crate::http::Reply;
use crate::pages::{self, Waiting};
use crate::payment_intents::{self, PaymentIntent, Status};

/// What the card holder does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Looks at the page.
    Look,
    /// Authenticates.
    Accept,
    /// Does not.
    Fail,
}

/// Answers the page and its two buttons.
pub fn answer(call: &mut Call, id: &str, decision: Decision) -> Outcome<Reply> {
    clock::settle(call)?;
    if let Some(reply) = adyen::payments::shopper(call, id, decision)? {
        return Ok(reply);
    }
    let intent = match payment_intents::load(call, id) {
        Err(Failure::Outcome(_)) => return Ok(Reply::html(404, pages::message("There is no such payment."))),
        other => other?,
    };
    if intent.status != Status::RequiresAction {
        let done = format!("Nothing to do: this payment is {}.", intent.status.as_str());
        return Ok(Reply::html(200, pages::message(&done)));
    }
    if decision == Decision::Look {
        let amount = format_amount(intent.amount, &intent.currency);
        let waiting = Waiting { id: &intent.id, amount };
        return Ok(Reply::html(200, pages::three_d_secure(&waiting)));
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
    Ok(Reply::see_other(with_query(&return_url, &query)))
}

/// Where a browser finds the page of a payment. Where the simulator does not know its own address, it is the one that the browser comes
/// back to, because whoever calls over a binding forwards `/_sim/3ds/` from there.
pub fn address(call: &Call, id: &str, return_url: Option<&str>) -> String {
    let origin = call.origin.or_else(|| return_url.and_then(origin_of)).unwrap_or_default();
    format!("{origin}/_sim/3ds/{id}")
}

/// `scheme://host:port` of a web address.
fn origin_of(url: &str) -> Option<&str> {
    let host = url.find("://")? + 3;
    let end = url.get(host..)?.find(['/', '?', '#']).map_or(url.len(), |length| host + length);
    url.get(..end)
}

fn return_url(intent: &PaymentIntent) -> Option<String> {
    let redirect = intent.next_action.as_ref()?.get("redirect_to_url")?;
    redirect.get("return_url")?.as_str().map(str::to_owned)
}

/// An address with more in its query.
pub fn with_query(url: &str, query: &str) -> String {
    let (address, fragment) = match url.split_once('#') {
        Some((address, fragment)) => (address, format!("#{fragment}")),
        None => (url, String::new()),
    };
    let joint = if address.contains('?') { '&' } else { '?' };
    format!("{address}{joint}{query}{fragment}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_origin_of_an_address_ends_where_its_path_begins() {
        assert_eq!(origin_of("http://localhost:8787/payments/x?y"), Some("http://localhost:8787"));
        assert_eq!(origin_of("https://shop.test?x=1"), Some("https://shop.test"));
        assert_eq!(origin_of("https://shop.test"), Some("https://shop.test"));
        assert_eq!(origin_of("nonsense"), None);
    }

    #[test]
    fn the_way_back_keeps_the_query_and_the_fragment() {
        assert_eq!(with_query("https://a.test/b", "x=1"), "https://a.test/b?x=1");
        assert_eq!(with_query("https://a.test/b?c=d#e", "x=1"), "https://a.test/b?c=d&x=1#e");
    }
}
