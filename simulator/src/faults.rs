//! The armed faults. Each waits for the next N matching requests; they are played in the order in which they were armed.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::fault::{Fault, MAX_DELAY_MS, PendingFault};
use crate::http::{Reply, Request};
use crate::metadata::{self, Metadata};
use crate::store::{Store, Stored};

/// No fault is armed for more requests than this.
const MAX_COUNT: u32 = 100_000;

/// The fault to play on a request, if one is armed for it.
pub fn take(store: &mut dyn Store, request: &Request) -> Stored<Option<PendingFault>> {
    let own = metadata::of_request(request);
    let matches = |fault: &PendingFault| {
        fault.path.as_ref().is_none_or(|prefix| request.path.starts_with(prefix.as_str()))
            && fault.method.as_ref().is_none_or(|method| *method == request.method)
            && fault.metadata.iter().all(|(name, value)| own.get(name) == Some(value))
    };
    let Some(fault) = store.faults()?.into_iter().find(matches) else {
        return Ok(None);
    };
    store.set_fault_remaining(fault.seq, fault.remaining.saturating_sub(1))?;
    Ok(Some(fault))
}

/// What `POST /_sim/faults` takes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ArmRequest {
    fault: Fault,
    #[serde(default = "once")]
    count: u32,
    delay_ms: Option<u64>,
    path: Option<String>,
    method: Option<String>,
    #[serde(default)]
    metadata: Metadata,
}

fn once() -> u32 {
    1
}

/// `POST /_sim/faults`
pub fn arm(store: &mut dyn Store, body: &Value) -> Stored<Reply> {
    let wanted: ArmRequest = match serde_json::from_value(body.clone()) {
        Ok(wanted) => wanted,
        Err(error) => return Ok(refuse(&error.to_string())),
    };
    if wanted.count == 0 || wanted.count > MAX_COUNT {
        return Ok(refuse("count must be 1 to 100000"));
    }
    if wanted.delay_ms.is_some_and(|delay| delay > MAX_DELAY_MS) {
        return Ok(refuse("delay_ms must be at most 600000"));
    }
    store.push_fault(PendingFault {
        seq: 0,
        fault: wanted.fault,
        remaining: wanted.count,
        delay_ms: wanted.delay_ms,
        path: wanted.path,
        method: wanted.method.map(|method| method.to_ascii_uppercase()),
        metadata: wanted.metadata,
    })?;
    show(store)
}

/// `GET /_sim/faults`
pub fn show(store: &dyn Store) -> Stored<Reply> {
    let pending: Vec<Value> = store
        .faults()?
        .into_iter()
        .map(|fault| {
            json!({
                "fault": fault.fault, "remaining": fault.remaining, "delay_ms": fault.delay_ms, "path": fault.path, "method": fault.method,
                "metadata": fault.metadata,
            })
        })
        .collect();
    Ok(Reply::json(200, &json!({ "faults": pending })))
}

/// `DELETE /_sim/faults`
pub fn clear(store: &mut dyn Store) -> Stored<Reply> {
    store.clear_faults()?;
    show(store)
}

fn refuse(message: &str) -> Reply {
    Reply::json(400, &json!({ "error": message }))
}
