//! Writes what this isolate has counted to Workers Analytics Engine, where it is bound. Nobody waits for that, and no object is asked.

use std::cell::RefCell;

use worker::js_sys::{JSON, Reflect};
use worker::wasm_bindgen::{JsCast, JsValue};
use worker::worker_sys::AnalyticsEngineDataset;
use worker::{Env, Result};

use super::points::{self, Point};
use super::recorder::{drain, put_back};
use crate::log::log;

/// The binding, by its name in wrangler.toml.
const BINDING: &str = "ANALYTICS";

thread_local! {
    /// All invocations of an isolate have the same bindings: it is looked for once.
    static DATASET: RefCell<Option<Option<AnalyticsEngineDataset>>> = const { RefCell::new(None) };
}

fn dataset(env: &Env) -> Option<AnalyticsEngineDataset> {
    if let Some(known) = DATASET.with_borrow(Clone::clone) {
        return known;
    }
    let bound = Reflect::get(env, &JsValue::from_str(BINDING)).ok();
    let found = bound.filter(|bound| !bound.is_undefined()).map(JsCast::unchecked_into);
    DATASET.set(Some(found.clone()));
    found
}

/// Whether it is bound.
pub fn is_bound(env: &Env) -> bool {
    dataset(env).is_some()
}

/// Writes all that was counted and not sent yet. `false` if it is not bound.
pub(super) fn write(env: &Env) -> bool {
    let Some(dataset) = dataset(env) else { return false };
    let (points, later) = points::points(&drain());
    put_back(later);
    for point in points {
        if let Err(error) = write_point(&dataset, &point) {
            let rows = point.doubles.len();
            let error = error.to_string();
            log("warn", &[("event", "counts_lost".into()), ("rows", rows.into()), ("error", error.into())]);
        }
    }
    true
}

/// In two calls into JavaScript: to build it there field by field would take some thirty.
fn write_point(dataset: &AnalyticsEngineDataset, point: &Point) -> Result<()> {
    let point = JSON::parse(&serde_json::to_string(point)?)?;
    Ok(dataset.write_data_point(point)?)
}
