//! An operator who settles by hand what nobody knows the outcome of. They say what the provider's own pages show, where they
//! see what has happened and not what is on its way; or they err, and say that nothing was executed without looking.

use std::collections::BTreeSet;

use once::by_hand::Refusal::TooEarly;
use once::call::ByHand;
use payments::engine::{CallState, ObjectState, ProviderCall, ProviderReply, Settlement};
use payments::payment::result::CallKind;
use payments::providers::Provider;
use payments::transitions::by_hand::{self, HOLD_MS, Refusal, Word};

use super::bank::Status;
use super::world::{Event, Reached, Transacted, World};
use crate::faults::{HOUR, MINUTE, SECOND};
use crate::invariants::Writer;
use crate::rng::Rng;

/// What of a transaction tells a person that something is wrong.
const TOLD: [&str; 2] = ["webhook.alert", "webhook.contradicts"];

/// The operators of a history.
pub(crate) struct Operators {
    rng: Rng,
    is_on: bool,
    errs: bool,
    /// The calls that they have heard of.
    met: BTreeSet<(usize, u32)>,
    /// What they have said was not executed: the object, and the call's key at the provider.
    denied: Vec<(usize, Provider, String)>,
    /// The objects in which a person was told since.
    told: BTreeSet<usize>,
    /// The keys at a provider that has still to do what they ask for.
    pub(crate) at_work: BTreeSet<String>,
}

impl Operators {
    pub(crate) const fn new(seed: u64) -> Self {
        Self {
            rng: Rng::new(seed),
            is_on: false,
            errs: false,
            met: BTreeSet::new(),
            denied: Vec::new(),
            told: BTreeSet::new(),
            at_work: BTreeSet::new(),
        }
    }

    pub(crate) const fn turn_on(&mut self, errs: bool) {
        (self.is_on, self.errs) = (true, errs);
    }
}

/// What an operator finds out.
enum Seen {
    Executed(ProviderReply),
    Nothing,
    /// It is not decided, or not to be believed.
    Unclear,
}

impl World {
    /// A transaction was committed: calls in doubt give an operator cause to look, some time later.
    pub(crate) fn operators_hear(&mut self, object: usize, audit: &[&'static str]) {
        if !self.operators.is_on {
            return;
        }
        if audit.iter().any(|action| TOLD.contains(action)) {
            self.operators.told.insert(object);
        }
        let doubtful = self.objects[object].store.object_state.calls.iter().filter(|call| call.in_doubt());
        for call_id in doubtful.map(|call| call.call_id).collect::<Vec<_>>() {
            let it = &mut self.operators;
            if it.met.insert((object, call_id)) && it.rng.permille(600) {
                let most_ms = it.rng.pick(&[10 * SECOND, 5 * MINUTE, 2 * HOUR, 30 * HOUR]);
                let ms = it.rng.between(SECOND, most_ms);
                self.after(ms, Event::Operator { object, call_id, to: None });
            }
        }
    }

    /// An operator looks at a call and settles it.
    pub(crate) fn operator(&mut self, object: usize, call_id: u32, to: Option<usize>) {
        let again = |to| Event::Operator { object, call_id, to: Some(to) };
        let Reached::Awake(instance, fault) = self.reach(object, to, again) else {
            return self.counters.count("by hand: not reached");
        };
        let known = self.objects[object].store.object_state.calls.iter().find(|call| call.call_id == call_id);
        let Some(call) = known.filter(|call| !matches!(call.state, CallState::Settled(_))).cloned() else {
            return self.counters.count("by hand: settled meanwhile");
        };
        let seen = self.seen(&call);
        // The object asks Stripe before it takes a "not executed", and shows what the provider has said itself.
        let is_shown = call.provider == Provider::Stripe && !matches!(seen, Seen::Nothing);
        if self.operators.errs && (is_shown || call.evidence.is_executed) {
            return self.counters.count("by hand: denied in vain");
        }
        let settlement = match seen {
            _ if self.operators.errs => Settlement::NotExecuted,
            Seen::Executed(reply) => Settlement::Answered(reply),
            Seen::Nothing => Settlement::NotExecuted,
            Seen::Unclear => return self.counters.count("by hand: unclear"),
        };
        let is_absent = settlement == Settlement::NotExecuted;
        self.tell(|| format!("  an operator settles call {call_id} in object {object}: {settlement:?}"));
        let saboteur = self.saboteur;
        let body = |state: &mut ObjectState, ctx: &_, me: &_| {
            let by_hand = ByHand {
                by: "ada".to_owned(),
                reason: "the dashboard says so".to_owned(),
                at_ms: 0,
                button: u64::from(call_id),
                is_contradicted: false,
            };
            let word = Word { call_id, sends: call.sends, settlement: settlement.clone(), by_hand };
            let settled = saboteur.settle(state, &word, me, ctx)?;
            if matches!(settled, Err(Refusal::Call(TooEarly { .. }))) {
                let _ = by_hand::hold(state, call_id, me, ctx);
            }
            Ok(settled)
        };
        match self.transact(instance, fault, Writer::Taker, body, |_, _, _| {}) {
            Transacted::Done(Ok(()), _) => {
                self.counters.count(if is_absent { "by hand: not executed" } else { "by hand: executed" });
                if is_absent {
                    self.operators.told.remove(&object);
                    self.operators.denied.push((object, call.provider, call.provider_key));
                }
                self.is_busy();
                self.calm_from_ms = self.calm_from_ms.max(self.now_ms);
                self.after(0, Event::Stir { instance });
            }
            Transacted::Done(Err(Refusal::Call(TooEarly { .. })), _) => {
                self.counters.count("by hand: too early, held");
                let wait_ms = self.times.quiet_ms + 15 * MINUTE;
                self.calm_from_ms = self.calm_from_ms.max(self.now_ms + wait_ms + HOLD_MS);
                self.after(wait_ms, Event::Operator { object, call_id, to: None });
            }
            Transacted::Done(Err(_), _) => {
                self.counters.count("by hand: refused");
                self.after(MINUTE, Event::Operator { object, call_id, to: None });
            }
            Transacted::Failed(error) => self.auditor.bug(&error.to_string()),
            Transacted::Crashed => {}
        }
    }

    /// What the provider's own pages show of a call.
    fn seen(&mut self, call: &ProviderCall) -> Seen {
        let key = &call.provider_key;
        let ledger = if call.provider == Provider::Stripe { &self.stripe.ledger } else { &self.adyen.ledger };
        let found = match call.kind {
            CallKind::Authorize => {
                let made = ledger.intents.iter().find(|intent| intent.by == *key);
                // What was refused and is authorised after all is seen as both: they wait.
                made.map(|intent| (intent.id.clone(), is_yes(intent.status).filter(|_| !intent.is_revived)))
            }
            CallKind::Capture | CallKind::Void => {
                let moved = ledger.intents.iter().find(|intent| intent.moved_by.as_ref() == Some(key));
                moved.map(|intent| (intent.id.clone(), Some(true)))
            }
            CallKind::CreateCustomer | CallKind::UpdateCustomer => {
                let made = ledger.customers.iter().find(|customer| customer.writes.contains(key));
                made.map(|customer| (customer.id.clone(), Some(true)))
            }
            CallKind::Refund => {
                let made = ledger.refunds.iter().find(|refund| refund.by == *key);
                made.map(|refund| (refund.id.clone(), (refund.status == "succeeded").then_some(true)))
            }
        };
        // What is being called off, or was, Adyen tells of.
        if call.kind == CallKind::Authorize && self.adyen.called_off.contains(key) {
            return Seen::Unclear;
        }
        let Some((id, is_done)) = found else {
            return if self.operators.at_work.contains(key) { Seen::Unclear } else { Seen::Nothing };
        };
        let read = match (call.provider, is_done) {
            (Provider::Stripe, _) => {
                let ask = call.provider.named_request(call, &id).unwrap();
                let answer = self.stripe.get(self.now_ms, &ask.path);
                call.provider.read_named(call, &id, Some(&answer), true)
            }
            (Provider::Adyen, Some(is_done)) => call.provider.read_named(call, &id, None, is_done),
            (Provider::Adyen, None) => return Seen::Unclear,
        };
        read.map_or(Seen::Unclear, Seen::Executed)
    }

    /// At the end: whatever was denied and is in the books all the same, a person was told of.
    pub(crate) fn judge_operators(&mut self) {
        for (object, provider, key) in &self.operators.denied {
            let ledger = if *provider == Provider::Stripe { &self.stripe.ledger } else { &self.adyen.ledger };
            let is_made = ledger.intents.iter().any(|intent| intent.by == *key && intent.taken > 0);
            let is_moved = ledger.intents.iter().any(|intent| intent.moved_by.as_ref() == Some(key));
            let is_back = ledger.refunds.iter().any(|refund| refund.by == *key && refund.status != "failed");
            if !(is_made || is_moved || is_back) {
                continue;
            }
            self.counters.count("by hand: wrong");
            let is_told = self.operators.told.contains(object);
            if !is_told && self.webhooks.is_on() && !self.webhooks.waited_for(*object) {
                self.counters.count("by hand: wrong, and nobody is told");
            }
        }
    }
}

/// Whether a payment was authorised; `None` if that is not decided.
const fn is_yes(status: Status) -> Option<bool> {
    match status {
        Status::Reserved | Status::Captured | Status::CaptureFailed | Status::Canceled | Status::Expired => {
            Some(true)
        }
        Status::Refused => Some(false),
        Status::Action | Status::Processing => None,
    }
}
