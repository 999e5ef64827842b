//! An operator says how a call ended of which nobody knows the outcome.
//!
//! Outcomes: the call is settled as they say, and its operation goes on from there at once; or the word is [refused](Refusal) and nothing
//! changes. A run whose lease has run out, or that is gone, does not write over it.

use super::call::{ByHand, CallState, ProviderCall, Settlement};
use super::context::Context;
use super::domain::Domain;
use super::id::InstanceId;
use super::object_state::ObjectState;
use super::record::{KeyRecord, Lifecycle};

/// What an operator says of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word<F: Domain> {
    /// Which call.
    pub call_id: u32,
    /// How often it had been sent when the operator looked.
    pub sends: u32,
    /// How it ended.
    pub settlement: Settlement<F::Answer>,
    /// Who says so, and why.
    pub by_hand: ByHand,
}

/// Why an operator's word is not taken. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is no such call.
    NoCall,
    /// It was settled meanwhile, or before.
    Settled,
    /// It is not settled: there is nothing to overrule.
    Open,
    /// It was never sent: there is nothing to settle.
    NeverSent,
    /// A run works on it, or on another call of its operation: a send or a look-up is on its way.
    UnderWay,
    /// It was sent again since the operator looked.
    SentAgain,
    /// The last send may still arrive.
    TooEarly {
        /// Until then, in ms since the epoch.
        until_ms: u64,
    },
}

/// Why a person is shown an operation whose runs end without a result.
const FAILS: &str = "it fails again and again";

/// What a person must look at in `after` and not in `before`: the key, the name of the call if it is about one, and why.
pub fn newly_flagged<'a, F: Domain>(
    before: &'a ObjectState<F>,
    after: &'a ObjectState<F>,
) -> impl Iterator<Item = (u32, Option<&'a str>, &'a str)> {
    let is_flagged =
        |key: &KeyRecord<F>| matches!(&key.lifecycle, Lifecycle::Open(open) if open.is_flagged());
    let was_flagged = move |key_id| before.key(key_id).is_some_and(is_flagged);
    let keys = after.keys.iter().filter(move |key| is_flagged(key) && !was_flagged(key.key_id));
    let was_shown = |call_id| before.call(call_id).is_some_and(|call| call.needs_review().is_some());
    // At each commit: few calls need a person, and only those are looked for.
    let calls = after.calls.iter().filter_map(|call| Some((call, call.needs_review()?)));
    let shown = calls.filter(move |(call, _)| !was_shown(call.call_id));
    let shown = shown.map(|(call, reason)| (call.key_id, Some(call.name.as_str()), reason));
    keys.map(|key| (key.key_id, None, FAILS)).chain(shown)
}

impl<F: Domain> ProviderCall<F> {
    /// Until when a send may still arrive, in ms since the epoch; by then nobody can have seen that it was not executed.
    pub fn may_arrive_until_ms(&self, ctx: &Context<F::Settings>) -> u64 {
        self.last_sent_at_ms.unwrap_or(0).saturating_add(ctx.times.quiet_ms)
    }

    /// Whether the operator has seen the last send, and that can have been seen to come to nothing.
    fn was_seen(&self, word: &Word<F>, ctx: &Context<F::Settings>) -> Result<(), Refusal> {
        if self.sends != word.sends {
            return Err(Refusal::SentAgain);
        }
        let until_ms = self.may_arrive_until_ms(ctx);
        if word.settlement == Settlement::NotExecuted && ctx.now_ms < until_ms {
            return Err(Refusal::TooEarly { until_ms });
        }
        Ok(())
    }
}

impl<F: Domain> ObjectState<F> {
    /// The call, if an operator can say now how it ended. `me` is this incarnation: a lease of another one is dead.
    ///
    /// # Errors
    /// Why they cannot.
    pub fn open_to_hand(
        &self,
        call_id: u32,
        me: &InstanceId,
        ctx: &Context<F::Settings>,
    ) -> Result<&ProviderCall<F>, Refusal> {
        let call = self.call(call_id).ok_or(Refusal::NoCall)?;
        if call.is_settled() {
            return Err(Refusal::Settled);
        }
        if call.first_sent_at_ms.is_none() {
            return Err(Refusal::NeverSent);
        }
        if self.key(call.key_id).is_some_and(|key| key.is_worked_on(me, ctx.now_ms)) {
            return Err(Refusal::UnderWay);
        }
        Ok(call)
    }

    /// Takes an operator's word of a call that is not settled.
    ///
    /// # Errors
    /// Why it is not taken.
    pub fn settle_by_hand(
        &mut self,
        word: Word<F>,
        me: &InstanceId,
        ctx: &Context<F::Settings>,
    ) -> Result<(), Refusal> {
        self.open_to_hand(word.call_id, me, ctx)?.was_seen(&word, ctx)?;
        self.take_word(word, ctx.now_ms);
        Ok(())
    }

    /// Takes an operator's word against the end that a call has: for where the flow knows that this end is not the last word, such as one that nobody knows.
    /// What the operation has made of that end is the flow's to change. `me` is this incarnation: a run of its own may be sending the operation's next call,
    /// and would be fenced when that is answered.
    ///
    /// # Errors
    /// Why it is not taken.
    pub fn overrule_by_hand(
        &mut self,
        word: Word<F>,
        me: &InstanceId,
        ctx: &Context<F::Settings>,
    ) -> Result<(), Refusal> {
        let call = self.call(word.call_id).ok_or(Refusal::NoCall)?;
        if !call.is_settled() {
            return Err(Refusal::Open);
        }
        if self.key(call.key_id).is_some_and(|key| key.is_worked_on(me, ctx.now_ms)) {
            return Err(Refusal::UnderWay);
        }
        call.was_seen(&word, ctx)?;
        self.take_word(word, ctx.now_ms);
        Ok(())
    }

    fn take_word(&mut self, word: Word<F>, now_ms: u64) {
        let Some(call) = self.call_mut(word.call_id) else { return };
        call.state = CallState::Settled(word.settlement);
        call.look_up = None;
        call.evidence.needs_review = None;
        call.evidence.closing = None;
        call.evidence.by_hand = Some(word.by_hand);
        let key_id = call.key_id;
        if let Some(Lifecycle::Open(open)) = self.key_mut(key_id).map(|key| &mut key.lifecycle) {
            open.lease = None;
            open.resume_at_ms = now_ms;
        }
    }
}
