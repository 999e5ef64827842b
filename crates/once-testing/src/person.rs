//! A person: looks at what the engine asks a person to look at, long after everything else, and says what became of it.

use once::by_hand::Word;
use once::call::{ByHand, ProviderCall, ProviderReply, Settlement};
use once::record::Lifecycle;
use once::times::Times;

use crate::commit::Committed;
use crate::scenario::Scenario;
use crate::world::{Answer, Event, Flow, World};

/// How long after all else a person looks, in ms, and again if there is something left.
const LATER_MS: u64 = 6 * 3_600_000;
/// How often at most.
const LOOKS_MAX: u64 = 8;

impl<S: Scenario> World<'_, S> {
    /// A person comes when what the provider is asked must have decided.
    pub(crate) fn person_comes(&mut self) {
        let Times { provider_window_ms, quiet_ms, quarantine_ms, retention_ms, .. } = self.times;
        // Where a client alone has what is sent it waits for one that long.
        let clients_ms = if self.scenario.needs_client() { retention_ms } else { 0 };
        let decided_ms = provider_window_ms + quiet_ms + quarantine_ms + clients_ms;
        for look in 1..=LOOKS_MAX {
            self.after(decided_ms.saturating_add(look * LATER_MS), Event::Person);
        }
    }

    /// Whoever is told of operations that have not ended settles what each of them waits for: as it is, which they find out.
    pub(crate) fn look(&mut self) -> Result<(), String> {
        let open = self.object_state.keys.iter().filter_map(|key| match &key.lifecycle {
            Lifecycle::Open(open) => Some((key.key_id, open.is_flagged())),
            _ => None,
        });
        for (key_id, is_flagged) in open.collect::<Vec<_>>() {
            let Some(call) = self.object_state.unsettled_call(key_id).cloned() else { continue };
            if !is_flagged && call.needs_review().is_none() {
                return Err(format!("nobody is told that key {key_id} has not ended"));
            }
            if !self.scenario.may_need_a_person() {
                return Err(format!("a person must say how {} ended", call.name));
            }
            let settlement = self.truth(&call);
            self.tell(format_args!("a person settles {}", call.name));
            let by_hand = |at_ms| ByHand {
                by: "a person".to_owned(),
                reason: "the provider's page says so".to_owned(),
                at_ms,
                button: 1,
                is_contradicted: false,
            };
            let (call_id, sends, me) = (call.call_id, call.sends, self.me());
            let said = self.transaction(|state, ctx| {
                let word = Word { call_id, sends, settlement, by_hand: by_hand(ctx.now_ms) };
                Ok(state.settle_by_hand(word, &me, ctx))
            })?;
            match said {
                // It is looked at again.
                Committed::Done { value: Err(why), .. } => self.tell(format_args!("not now: {why:?}")),
                Committed::Done { value: Ok(()), .. } => self.settled_by_hand += 1,
                Committed::Died => return self.look(),
                _ => {}
            }
        }
        Ok(())
    }

    fn truth(&self, call: &ProviderCall<Flow<S>>) -> Settlement<Answer<S>> {
        self.provider.executed(call).map_or(Settlement::NotExecuted, |made| {
            Settlement::Answered(ProviderReply { status: 200, result: made.answer.clone(), request_id: None })
        })
    }
}
