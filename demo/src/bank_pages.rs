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
    let policy = reply.header(CSP).filter(|_| request.path.starts_with("/_sim/mailbox"));
    let mut answer =
        Answer::empty(reply.status, "simulated").with(CSP, policy.unwrap_or_else(|| POLICY.to_owned()));
    for name in ["content-type", "location"] {
        if let Some(value) = reply.header(name) {
            answer = answer.with(name, value);
        }
    }
    answer.body = reply.body.into_bytes();
    Ok(answer)
}
