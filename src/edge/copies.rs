//! Replays that are answered here, from the copies of this isolate: see [`replay_cache`](crate::replay_cache).

use super::app::App;
use crate::config::Config;
use crate::replay_cache::requests::Seen;
use crate::replay_cache::{Final, isolate};
use messages::message::{ExecuteResult, Finality};
use once::id::{ObjectId, RequestId};
use once::record::StoredResponse;
use payments::engine::Command;
use runtime::metrics;

/// What a replay is answered of which there is a copy, and where it ran.
pub(super) fn replay(app: &App, command: &Command) -> Option<(ExecuteResult, ObjectId)> {
    if app.config.replay_cache_ms == 0 {
        return None;
    }
    let copy = isolate::find(&command.owner, &command.key_hash, &command.fingerprint)?;
    metrics::replayed_at_edge(copy.took_money);
    let Final { response, original_request, object, .. } = copy;
    Some((ExecuteResult::Finished { response, original_request, replayed: true }, object))
}

/// The body of a copy, and whether each replay is a charge that did not happen.
pub(super) fn body(seen: &Seen) -> Option<(Vec<u8>, bool)> {
    isolate::with(&seen.owner, &seen.key_hash, &seen.fingerprint, |copy| {
        (copy.response.body.clone(), copy.took_money)
    })
}

/// Keeps a copy of what an object has answered, if that is final. It lasts from when the request came: so never longer than the object said.
pub(super) fn keep(
    config: &Config,
    came_ms: u64,
    seen: &Seen,
    finality: Finality,
    kept: (&StoredResponse, &RequestId),
) {
    let lasts_ms = finality.lasts_ms.min(config.replay_cache_ms);
    if lasts_ms == 0 {
        return;
    }
    let Seen { owner, key_hash, fingerprint, object } = seen.clone();
    let (response, original_request) = (kept.0.clone(), kept.1.clone());
    let copy =
        Final { owner, fingerprint, object, response, original_request, took_money: finality.took_money };
    isolate::keep(&key_hash, copy, came_ms.saturating_add(lasts_ms));
}
