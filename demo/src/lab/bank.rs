//! The bank of the lab: the simulator, with the faults that it is to play.

use super::ledger::{Ledger, Side, charges, waiting};
use super::{ExperimentId, InjectedFault};
use crate::app::{App, Reply, Service};
use payments::providers::stripe::API_VERSION;
use runtime::http_client::OutboundRequest;

/// Sends a request to the simulator.
pub(super) async fn send(app: &App, path: &str, body: Option<(&str, &str)>) -> worker::Result<Reply> {
    let mut headers = vec![
        ("authorization", format!("Bearer {}", app.config.stripe_key)),
        ("stripe-version", API_VERSION.to_owned()),
    ];
    headers.extend(body.map(|(content_type, _)| ("content-type", content_type.to_owned())));
    let request = OutboundRequest {
        method: if body.is_some() { "POST" } else { "GET" },
        url: format!("https://simulator{path}"),
        headers,
        body: body.map(|(_, body)| body),
    };
    app.send(Service::Simulator, &request).await
}

/// The next `count` payments of one side of the experiment meet the fault; nobody else's.
pub(super) async fn arm(
    app: &App,
    experiment: &ExperimentId,
    side: Side,
    fault: InjectedFault,
    count: u32,
) -> worker::Result<()> {
    let Some((fault, delay_ms)) = fault.at_the_bank() else {
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
    fault: Option<InjectedFault>,
) -> worker::Result<Ledger> {
    let lines =
        send(app, &format!("/_sim/ledger?provider=stripe&metadata%5Blab%5D={experiment}"), None).await?;
    let charges = charges(&lines.body)?;
    let waiting = match fault {
        Some(InjectedFault::BankPage) => {
            let list = send(app, "/v1/payment_intents?limit=100", None).await?;
            waiting(&list.body, &experiment.to_string())?
        }
        _ => Vec::new(),
    };
    Ok(Ledger { charges, waiting })
}
