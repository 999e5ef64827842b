//! How often an order is tried, and how soon again. Whoever tests stolen cards needs many tries in a short time; a person who
//! mistypes a number or has an empty account needs a few.
//!
//! The first tries follow each other at once. After each further one that failed there is a pause that doubles, and after the
//! last one the order can only be paid as another order: the shop makes that, and sees whom it is for.

use serde::{Deserialize, Serialize};

use crate::engine::{Context, KeyRecord, ObjectState, ProviderCall};
use crate::payment::operation::Refusal;
use crate::payment::result::CallKind;

/// After how many tries that failed the pauses begin.
pub const FREE_TRIES: u32 = 3;
/// The longest pause, in ms.
const PAUSE_MAX_MS: u64 = 900_000;

/// When the next try of an order may begin, as far as the number of tries is concerned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NextTry {
    /// At once.
    #[default]
    Now,
    /// Not before this time, in ms since the epoch.
    At(u64),
    /// There are as many as there may be.
    Never,
}

/// When the next try may begin.
pub fn next_try(state: &ObjectState, ctx: &Context) -> NextTry {
    // What was never sent has no row, and has shown nobody what a card can do. Nor has a void, or money that is given back.
    let is_try = |key: &&KeyRecord| {
        let is_its = |call: &ProviderCall| call.key_id == key.key_id && call.kind == CallKind::Authorize;
        state.calls.iter().any(|call| is_its(call) && call.first_sent_at_ms.is_some())
    };
    let tries = u32::try_from(state.resource.tries.len()).unwrap_or(u32::MAX);
    let ended = state.keys.iter().filter_map(KeyRecord::finished_at_ms).count();
    if tries >= ctx.settings.limits.order_tries_max || ended >= ctx.settings.limits.keys_max as usize {
        return NextTry::Never;
    }
    let newest_ms = state.keys.iter().filter(is_try).filter_map(KeyRecord::finished_at_ms).max();
    let at_ms = newest_ms.unwrap_or(0).saturating_add(pause_ms(tries, ctx));
    if at_ms > ctx.now_ms { NextTry::At(at_ms) } else { NextTry::Now }
}

/// Why the next try may not begin yet, or any more.
pub(super) fn refusal(state: &ObjectState, ctx: &Context) -> Option<Refusal> {
    match next_try(state, ctx) {
        NextTry::Now => None,
        NextTry::At(retry_at_ms) => Some(Refusal::TooSoon { retry_at_ms }),
        NextTry::Never => Some(Refusal::LimitReached {
            detail: "This order was tried as often as an order may be. Nothing was executed. Make a new order, under another \
                     order id."
                .to_owned(),
        }),
    }
}

fn pause_ms(tries: u32, ctx: &Context) -> u64 {
    match tries.checked_sub(FREE_TRIES) {
        None => 0,
        Some(further) => {
            ctx.settings.limits.try_pause_ms.saturating_mul(1 << further.min(16)).min(PAUSE_MAX_MS)
        }
    }
}
