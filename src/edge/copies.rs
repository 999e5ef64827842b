//! Replays that are answered here, from the copies of this isolate: see [`replay_cache`](crate::replay_cache).

use super::app::App;
use crate::replay_cache::{Final, isolate};
use messages::message::{Answered, ExecuteResult};
use once::fingerprint::Fingerprint;
use once::id::Owner;
use once::key::KeyHash;
use payments::engine::Command;
use runtime::metrics;
use web::http::Request;

/// The answer to a replay of which there is a copy.
pub(super) fn replay(app: &App, command: &Command) -> Option<ExecuteResult> {
    if app.config.replay_cache_ms == 0 {
        return None;
    }
    let copy = isolate::find(&command.owner, &command.key_hash, &command.fingerprint)?;
    metrics::replayed_at_edge(copy.took_money);
    let Final { response, original_request, .. } = copy;
    Some(ExecuteResult::Finished { response, original_request, replayed: true })
}

/// Keeps a copy of what an object has answered, if that is final. It lasts from when the request came: so never longer than the object said.
pub(super) fn keep(
    app: &App,
    request: &Request,
    (owner, key_hash, fingerprint): (&Owner, &KeyHash, Fingerprint),
    answered: &Answered<ExecuteResult>,
) {
    let (Some(finality), ExecuteResult::Finished { response, original_request, .. }) =
        (answered.finality, &answered.message)
    else {
        return;
    };
    let lasts_ms = finality.lasts_ms.min(app.config.replay_cache_ms);
    let copy = Final {
        owner: owner.clone(),
        fingerprint,
        response: response.clone(),
        original_request: original_request.clone(),
        took_money: finality.took_money,
    };
    isolate::keep(key_hash, copy, request.now_ms.saturating_add(lasts_ms));
}
