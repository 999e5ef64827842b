//! The 3-D Secure page that `next_action.redirect_to_url.url`, or Adyen's `action.url`, leads to: what is the same for all providers.
//!
//! `GET /_sim/3ds/{id}` shows it; `POST …/accept` and `POST …/fail` decide and send the browser back to the `return_url`. A second decision
//! changes nothing.

use crate::http::Request;
use crate::pages::{escape, page};

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

/// A payment that waits for its card holder.
pub struct Waiting<'a> {
    /// Its id at the provider.
    pub id: &'a str,
    /// As people write it.
    pub amount: String,
}

/// The 3-D Secure page.
pub fn page_of(payment: &Waiting) -> String {
    let id = escape(payment.id);
    let amount = escape(&payment.amount);
    page(
        "3-D Secure test page",
        "small",
        &format!(
            "<div class=\"card pad ask\"><h1>3-D Secure</h1><p>A bank would ask here: is this you?</p><p class=\"sum\">{amount}</p>\
             <p><code>{id}</code></p>\
             <form method=\"post\" action=\"/_sim/3ds/{id}/accept\"><button class=\"main\">Complete authentication</button></form>\
             <form method=\"post\" action=\"/_sim/3ds/{id}/fail\"><button>Fail authentication</button></form>\
             <p class=\"note\">A test page: no card is charged.</p></div>"
        ),
    )
}

/// Where a browser finds the page of a payment. Where the simulator does not know its own address, it is the one that the browser comes
/// back to, because whoever calls over a binding forwards `/_sim/3ds/` from there.
pub fn address(request: &Request, id: &str, return_url: Option<&str>) -> String {
    let origin = request.origin.as_deref().or_else(|| return_url.and_then(origin_of)).unwrap_or_default();
    format!("{origin}/_sim/3ds/{id}")
}

/// `scheme://host:port` of a web address.
fn origin_of(url: &str) -> Option<&str> {
    let host = url.find("://")? + 3;
    let end = url.get(host..)?.find(['/', '?', '#']).map_or(url.len(), |length| host + length);
    url.get(..end)
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
