//! The simulator's pages for a browser: the bank's page, and the mailbox. In the demo only our own port can be reached by one.

use crate::app::{App, Service};
use runtime::http_client::OutboundRequest;
use runtime::serve::unreadable;
use web::http::{Answer, Request};
use web::problem::Problem;
use web::reply::CSP;

/// The bank's page brings its style and its empty icon, and its buttons lead back to any shop.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; frame-ancestors 'none'";

/// The way back from the mailbox. The simulator by itself has none: where it stands alone these pages do not exist.
const NAVIGATION: &str = concat!(
    "<nav aria-label=\"Demo\"><a href=\"/\">Paid Once</a><a href=\"/lab\">Lab</a><a href=\"/checkout\">Checkout</a>",
    "<a href=\"/docs\">API</a><a href=\"/admin\">Desk</a><a href=\"/guide\">Docs</a></nav>"
);

/// `/_sim/…`: hands a request on, without anything that says who asks.
pub(crate) async fn show(app: &App, request: &Request) -> Result<Answer, Problem> {
    let body = String::from_utf8_lossy(&request.body);
    let is_post = request.method == "POST";
    let content_type = request.header("content-type").map(|value| ("content-type", value.to_owned()));
    let forwarded = OutboundRequest {
        method: if is_post { "POST" } else { "GET" },
        url: format!("https://simulator{}?{}", request.path, request.query),
        headers: content_type.into_iter().collect(),
        body: is_post.then_some(&body),
    };
    let reply = app.send(Service::Simulator, &forwarded).await.map_err(unreadable)?;
    // What an email's HTML may do is for the mailbox to say; the bank's page has a form to press, and nothing else.
    let is_mailbox = request.path.starts_with("/_sim/mailbox");
    let policy = reply.header(CSP).filter(|_| is_mailbox);
    let mut answer =
        Answer::empty(reply.status, "simulated").with(CSP, policy.unwrap_or_else(|| POLICY.to_owned()));
    for name in ["content-type", "location"] {
        if let Some(value) = reply.header(name) {
            answer = answer.with(name, value);
        }
    }
    let body = if is_mailbox {
        reply.body.replacen("<body>", &format!("<body>{NAVIGATION}"), 1)
    } else {
        reply.body
    };
    answer.body = body.into_bytes();
    Ok(answer)
}
