//! What an operator sees of an object, and how they settle what nobody knows the end of.

use messages::gate::GateWord;
use messages::inspection::{CallView, Inspection};
use messages::message::ByHandAnswer;
use messages::snapshot::{KeyRow, Snapshot};
use once::by_hand::{Refusal, Word};
use once::call::{ByHand, CallState, ProviderCall, ProviderReply, Settlement};
use once::context::Context;
use once::id::InstanceId;
use once::object_state::{ObjectState, TimelineEntry};
use once::record::Lifecycle;

use crate::domain::{PassOn, SEND, without_answer, word};
use crate::meaning::Ended;
use crate::read_model;

/// Takes an operator's word, or says why not: then nothing is changed. What follows from it is due now.
pub fn settle(
    object_state: &mut ObjectState<PassOn>,
    said: &GateWord,
    me: &InstanceId,
    ctx: &Context<()>,
) -> ByHandAnswer {
    let refused = |detail: &str| ByHandAnswer::Refused { detail: detail.to_owned() };
    let never_sent = "it was never sent: there is nothing to say";
    let Some(call) = object_state.call_named(said.number, SEND) else { return refused(never_sent) };
    let ended = if said.is_done { Ended::Done } else { Ended::NotDone };
    let settled = ByHandAnswer::Settled { how: word(ended).replace('_', " ") };
    if call.evidence.by_hand.as_ref().is_some_and(|before| before.button == said.button) {
        return settled;
    }
    let known = object_state.resource.ended.get(&call.key_id).copied();
    if let Some(known) = known.filter(|ended| *ended != Ended::Unknown) {
        return refused(&format!("it is known meanwhile: {}", word(known).replace('_', " ")));
    }
    let quiet_ms = quiet_for_ms(call, ctx.times.quiet_ms, ctx.now_ms);
    if !said.is_done && quiet_ms > 0 {
        let seconds = quiet_ms.div_ceil(1000);
        return refused(&format!("the origin may still work on it: say so in {seconds} s"));
    }
    let by_hand = ByHand {
        by: said.operator.clone(),
        reason: said.reason.clone(),
        at_ms: ctx.now_ms,
        button: said.button,
        is_contradicted: false,
    };
    let status = if said.is_done { 200 } else { 502 };
    let result = without_answer(ended);
    let settlement = Settlement::Answered(ProviderReply { status, result, request_id: None });
    let is_in_doubt = call.in_doubt();
    let said_of = Word { call_id: call.call_id, sends: call.sends, settlement, by_hand };
    let taken = match known {
        // Its call has ended as one that nobody knows the end of.
        Some(_) => object_state.overrule_by_hand(said_of, me, ctx),
        None if is_in_doubt => object_state.settle_by_hand(said_of, me, ctx),
        None => Err(Refusal::NeverSent),
    };
    match taken {
        Ok(()) => {}
        Err(Refusal::UnderWay) => {
            return refused("it is being sent, or asked about, right now: load the page again in a minute");
        }
        Err(_) => return refused(never_sent),
    }
    // What is still open ends by its own run.
    if let Some(known) = object_state.resource.ended.get_mut(&said.number) {
        *known = ended;
    }
    // What they have written stands with the call alone: a line is never forgotten.
    let detail = format!("{}, by hand", word(ended).replace('_', " "));
    object_state.append_timeline(said.number, ctx.now_ms, "call_settled_by_hand", detail);
    settled
}

/// Until when what an operator has written is kept, in ms since the epoch: as long as an answer, and with it. The one that goes first.
pub fn over_at_ms(object_state: &ObjectState<PassOn>) -> Option<u64> {
    let written = object_state.calls.iter().filter_map(|call| reason_over_at_ms(object_state, call));
    written.min()
}

/// Forgets it: that they have said how it ended stays, and who it was.
pub fn forget(object_state: &mut ObjectState<PassOn>, now_ms: u64) {
    let is_over = |call: &&ProviderCall<PassOn>| {
        reason_over_at_ms(object_state, call).is_some_and(|at_ms| at_ms <= now_ms)
    };
    let over: Vec<_> = object_state.calls.iter().filter(is_over).map(|call| call.call_id).collect();
    for call in object_state.calls.iter_mut().filter(|call| over.contains(&call.call_id)) {
        call.evidence.by_hand.iter_mut().for_each(|by_hand| by_hand.reason.clear());
    }
}

fn reason_over_at_ms(object_state: &ObjectState<PassOn>, call: &ProviderCall<PassOn>) -> Option<u64> {
    let by_hand = call.evidence.by_hand.as_ref().filter(|by_hand| !by_hand.reason.is_empty())?;
    let Lifecycle::Expired(tombstone) = &object_state.key(call.key_id)?.lifecycle else { return None };
    let keep_ms = object_state.resource.waits?.keep_ms;
    Some(by_hand.at_ms.saturating_add(keep_ms).max(tombstone.expires_at_ms))
}

/// How long the origin may still be at work on what it was sent last, in ms.
pub fn quiet_for_ms(call: &ProviderCall<PassOn>, quiet_ms: u64, now_ms: u64) -> u64 {
    call.last_sent_at_ms.unwrap_or(0).saturating_add(quiet_ms).saturating_sub(now_ms)
}

/// All that an operator may see: never what was sent or answered. `None` where nothing is.
pub fn inspection(
    object_state: &ObjectState<PassOn>,
    timeline: Vec<TimelineEntry>,
    now_ms: u64,
) -> Option<Inspection> {
    let owner = object_state.keys.first()?.owner.to_text();
    let keys = object_state.keys.iter().map(|key| KeyRow {
        key_id: key.key_id,
        key_hash: read_model::name(key).to_owned(),
        owner: owner.clone(),
        operation: object_state.resource.places.get(&key.key_id).map(|place| place.route.clone()),
        status: read_model::state(object_state, key).to_owned(),
        recovery_point: key.recovery_point().as_str().to_owned(),
        attempts: key.attempt,
        response_status: read_model::status(object_state, key.key_id),
        wake_at_ms: match &key.lifecycle {
            Lifecycle::Open(open) => {
                Some(open.lease.as_ref().map_or(open.resume_at_ms, |lease| lease.until_ms))
            }
            Lifecycle::Finished(_) | Lifecycle::Expired(_) => None,
        },
        created_at_ms: key.created_at_ms,
        finished_at_ms: key.finished_at_ms(),
        ..KeyRow::default()
    });
    let snapshot = Snapshot {
        object: object_state.object.to_hex(),
        version: object_state.resource.version,
        at_ms: now_ms,
        owner: owner.clone(),
        keys: keys.collect(),
        ..Snapshot::default()
    };
    Some(Inspection {
        snapshot,
        timeline,
        replays: object_state.keys.iter().map(|key| (key.key_id, key.replays)).collect(),
        calls: object_state.calls.iter().map(|call| view(object_state, call)).collect(),
        ..Inspection::default()
    })
}

fn view(object_state: &ObjectState<PassOn>, call: &ProviderCall<PassOn>) -> CallView {
    let by_hand = call.evidence.by_hand.as_ref();
    CallView {
        call_id: call.call_id,
        key_id: call.key_id,
        name: call.name.clone(),
        provider: object_state
            .resource
            .places
            .get(&call.key_id)
            .map(|place| place.host.clone())
            .unwrap_or_default(),
        provider_key: call.provider_key.clone(),
        status: call.state.name().to_owned(),
        in_doubt: call.in_doubt(),
        needs_review: call.needs_review().map(str::to_owned),
        by_hand: by_hand.map(|by_hand| (by_hand.by.clone(), by_hand.reason.clone())),
        result: match &call.state {
            CallState::Settled(Settlement::Answered(reply)) => Some(word(reply.result.ended).to_owned()),
            CallState::Settled(Settlement::NotExecuted) => Some(word(Ended::NeverSent).to_owned()),
            CallState::Settled(Settlement::NeedsReview) => Some(word(Ended::Unknown).to_owned()),
            _ => None,
        },
        http_status: read_model::status(object_state, call.key_id),
        sends: call.sends,
        failures: call.failures,
        first_sent_at_ms: call.first_sent_at_ms,
        last_sent_at_ms: call.last_sent_at_ms,
        next_try_at_ms: call.next_try_at_ms,
        ..CallView::default()
    }
}
