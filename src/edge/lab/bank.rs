//! The way to the demo's bank: the simulator, over its binding and in no other way. What is asked here has no protection, so
//! it must never get to a real bank.

use worker::wasm_bindgen::JsValue;
use worker::{Headers, Method, RequestInit};

use super::ledger::{Ledger, Side, charges, waiting};
use super::{ExperimentId, InjectedFault};
use crate::edge::app::App;
use payments::providers::stripe::API_VERSION;

/// An answer of the bank.
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) body: String,
}

/// Sends a request to the simulator.
pub(super) async fn send(app: &App, path: &str, body: Option<(&str, &str)>) -> worker::Result<Reply> {
    let headers = Headers::new();
    headers.set("authorization", &format!("Bearer {}", app.config.stripe_key))?;
    headers.set("stripe-version", API_VERSION)?;
    let mut init = RequestInit::new();
    if let Some((content_type, body)) = body {
        headers.set("content-type", content_type)?;
        init.with_method(Method::Post).with_body(Some(JsValue::from_str(body)));
    }
    init.with_headers(headers);
    let request = worker::Request::new_with_init(&format!("{}{path}", app.config.stripe_base), &init)?;
    let mut response = app.env.service("STRIPE")?.fetch_request(request).await?;
    Ok(Reply { status: response.status_code(), body: response.text().await? })
}

/// The next `count` payments of one side of the experiment meet the fault; nobody else's.
pub(super) async fn arm(
    app: &App,
    experiment: &ExperimentId,
    side: Side,
    trouble: InjectedFault,
    count: u32,
) -> worker::Result<()> {
    let Some((fault, delay_ms)) = trouble.at_the_bank() else {
        return Ok(());
    };
    let order = serde_json::json!({
        "fault": fault, "count": count, "delay_ms": delay_ms, "path": "/v1/payment_intents", "method": "POST",
        "metadata": { "lab": experiment.to_string(), "side": side.as_str() },
    });
    let reply = send(app, "/_sim/faults", Some(("application/json", &order.to_string()))).await?;
    match reply.status {
        200 => Ok(()),
        status => Err(worker::Error::RustError(format!("the simulator answered {status}"))),
    }
}

/// What the bank knows about the experiment.
pub(super) async fn ledger(
    app: &App,
    experiment: &ExperimentId,
    trouble: Option<InjectedFault>,
) -> worker::Result<Ledger> {
    let lines =
        send(app, &format!("/_sim/ledger?provider=stripe&metadata%5Blab%5D={experiment}"), None).await?;
    let charges = charges(&lines.body)?;
    let waiting = match trouble {
        Some(InjectedFault::BankPage) => {
            let list = send(app, "/v1/payment_intents?limit=100", None).await?;
            waiting(&list.body, &experiment.to_string())?
        }
        _ => Vec::new(),
    };
    Ok(Ledger { charges, waiting })
}
