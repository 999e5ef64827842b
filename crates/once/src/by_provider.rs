//! A provider tells by itself how a call ended, by a webhook most often, and perhaps before its answer comes.
//!
//! Outcomes: the call is settled by that, and its operation goes on from there at once; or the news is [refused](Refusal) and nothing changes. A send
//! or a look-up that is on its way meanwhile writes nothing over it.

use super::call::{CallState, ProviderReply, Settlement};
use super::context::Context;
use super::domain::{Answer, Domain};
use super::id::InstanceId;
use super::object_state::ObjectState;
use super::record::Lifecycle;

/// Why news of a call is not taken. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is no such call.
    NoCall,
    /// It is settled with the provider's own answer. Whether the news says something else, or something more, is for the flow to see.
    Settled,
    /// It is settled without the provider's word: as not executed, because nobody knew, or by a person. The news may be all that the provider says of it:
    /// whoever gets it keeps it, and somebody looks.
    SettledWithoutWord,
    /// As far as is written down nothing was sent yet.
    NeverSent,
    /// A refusal of the request, which a provider need not keep: another send may have been executed, or may be yet. Not where the provider has said that it
    /// has the call, as by an answer that it is accepted ([`Outcome::Unconfirmed`](super::call::Outcome::Unconfirmed)): then this is how it ended.
    InDoubt,
    /// What it had left open is being canceled, and how that ends is its end.
    Closing,
}

impl Refusal {
    /// Whether the news is to come again later, as after an answer with status 503: what is on its way decides first.
    pub const fn comes_again(self) -> bool {
        matches!(self, Self::NeverSent | Self::InDoubt | Self::Closing)
    }
}

impl<F: Domain> ObjectState<F> {
    /// Takes the provider's last word on a call, which it tells by itself. `me` is this incarnation: a lease of another one is dead.
    ///
    /// # Errors
    /// Why it is not taken.
    pub fn settle_by_provider(
        &mut self,
        call_id: u32,
        reply: ProviderReply<F::Answer>,
        me: &InstanceId,
        ctx: &Context<F::Settings>,
    ) -> Result<(), Refusal> {
        let call = self.call_mut(call_id).ok_or(Refusal::NoCall)?;
        match &call.state {
            CallState::Settled(Settlement::Answered(_)) if call.evidence.by_hand.is_none() => {
                return Err(Refusal::Settled);
            }
            CallState::Settled(_) => return Err(Refusal::SettledWithoutWord),
            CallState::Frozen | CallState::InFlight | CallState::Unknown => {}
        }
        if call.sends == 0 {
            return Err(Refusal::NeverSent);
        }
        if call.evidence.closing.is_some() {
            return Err(Refusal::Closing);
        }
        if call.in_doubt() && !call.evidence.is_executed && reply.result.is_refusal() {
            return Err(Refusal::InDoubt);
        }
        call.look_up = None;
        call.evidence.needs_review = None;
        call.evidence.is_told = true;
        call.state = CallState::Settled(Settlement::Answered(reply));
        let (key_id, detail) = (call.key_id, format!("{}: told by the provider", call.name));
        self.append_timeline(key_id, ctx.now_ms, "call_settled", detail);
        let Some(key) = self.key_mut(key_id) else { return Ok(()) };
        // A run that lives goes on by itself.
        if !key.is_worked_on(me, ctx.now_ms)
            && let Lifecycle::Open(open) = &mut key.lifecycle
        {
            (open.lease, open.resume_at_ms) = (None, ctx.now_ms);
        }
        Ok(())
    }
}
