//! The Worker's entry: forwards everything to the one object, and cuts connections where a fault says so.
//!
//! How a cut looks depends on the caller, see README.md: over HTTP the answer breaks off after its headers; over a service binding the
//! caller's `fetch` throws.

use std::time::Duration;

use futures_util::stream;
use worker::{Context, Delay, Env, Error, Headers, Request, Response, Result, event};

use crate::shell::object::CUT_HEADER;

/// Long enough for the headers of a broken answer to be on their way. Were the body to fail at once, the development server would answer
/// 500 instead of breaking the connection.
const HEADERS_FIRST: Duration = Duration::from_millis(20);

#[event(fetch)]
async fn fetch(request: Request, env: Env, _context: Context) -> Result<Response> {
    if request.path() == "/healthz" {
        return Response::ok("ok\n");
    }
    // The runtime sets this header on what comes from the network, and never on what comes over a binding.
    let over_http = request.headers().get("cf-connecting-ip")?.is_some();
    let answer = env.durable_object("ACCOUNT")?.get_by_name("main")?.fetch_with_request(request).await?;
    if answer.headers().get(CUT_HEADER)?.is_none() {
        return Ok(answer);
    }
    if over_http { cut_body() } else { never().await }
}

fn cut_body() -> Result<Response> {
    let broken = stream::once(async {
        Delay::from(HEADERS_FIRST).await;
        Err::<Vec<u8>, Error>(Error::from("connection cut by a simulated fault"))
    });
    let headers = Headers::new();
    headers.set("Content-Type", "application/json")?;
    Ok(Response::from_stream(broken)?.with_headers(headers))
}

/// Waits for nothing. The runtime notices at once that no answer can come any more, and throws in the caller. An error returned from here
/// would not do: `wrangler dev` makes a well-formed 500 of it.
async fn never() -> Result<Response> {
    std::future::pending().await
}
