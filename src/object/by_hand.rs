//! What an operator asks of a call whose outcome nobody knows: to see it beside what its provider shows, and to settle it.

use std::time::Duration;

use futures_util::future::{Either, select};
use worker::Delay;

use super::drive::Drive;
use super::inspect::PATIENCE;
use messages::inspection::CallView;
use messages::message::{ByHandAnswer, ByHandAsk, CallReport, ProviderSnapshot, Said};
use once::call::{ByHand, LookUpProgress};
use once::context::Bug;
use once::object_state::TimelineEntry;
use once_object::object::Host as _;
use payments::engine::{LookUp, ObjectState, ProviderCall, ProviderReply, Settlement};
use payments::payment::result::ProviderResult;
use payments::transitions::by_hand::{self, Refusal, Word};

/// How long the provider has to answer: a person waits for the page.
const PROVIDER_WITHIN: Duration = Duration::from_secs(6);
/// How many pages of the provider's list are read for it.
const PAGES_MAX: u32 = 5;
/// How many lines of what came of the call are shown.
const LINES_SHOWN: usize = 8;
const NO_CALL: Refusal = Refusal::Call(once::by_hand::Refusal::NoCall);

impl Drive {
    /// A call and what its provider shows now. `None` where there is no such call.
    pub(super) async fn show_call(&self, call_id: u32) -> Result<Option<CallReport>, Bug> {
        let Some(state) = self.store().read()? else { return Ok(None) };
        let Some(call) = state.call(call_id) else { return Ok(None) };
        self.host().prepare(Some(&state), None).await;
        let ctx = self.context();
        let given_up = by_hand::given_up(&state, ctx.now_ms).filter(|(given_up, _)| *given_up == call_id);
        let untold = by_hand::untold(&state, call, ctx.now_ms);
        let ended = by_hand::ended(call).filter(|_| given_up.is_none() && untold.is_none());
        let shown = match ended {
            Some(_) => None,
            None => {
                let shown = provider_snapshot(call, &self.look(call).await);
                Some(ProviderSnapshot { id: untold.map(str::to_owned).or(shown.id), ..shown })
            }
        };
        let refusal = by_hand::check(&state, call_id, self.me(), &ctx).err();
        let (amount_minor, currency) = match by_hand::amount(&state, call) {
            Some((minor, currency)) => (Some(minor), currency.as_str().to_owned()),
            None => (None, String::new()),
        };
        Ok(Some(CallReport {
            call: CallView::of(call),
            amount_minor,
            currency,
            reference: call.provider.reference(call),
            is_executed: call.evidence.is_executed,
            quarantined_until_ms: call.quarantined_until_ms(&ctx).filter(|until_ms| ctx.now_ms < *until_ms),
            may_arrive_until_ms: Some(call.may_arrive_until_ms(&ctx))
                .filter(|until_ms| ctx.now_ms < *until_ms),
            ended,
            is_given_up: given_up.is_some(),
            is_untold: untold.is_some(),
            refusal: refusal.map(|refusal| refusal.message()),
            lines: lines(self.store().timeline()?, call),
            shown,
        }))
    }

    /// Takes an operator's word, or says why not. Unless it is final nothing is written.
    pub(super) async fn settle_by_hand(&self, ask: ByHandAsk) -> Result<ByHandAnswer, Bug> {
        let Some(state) = self.store().read()? else { return Ok(refused(&NO_CALL)) };
        let pressed = |call: &&ProviderCall| {
            let by_hand = call.evidence.by_hand.as_ref();
            call.call_id == ask.call_id && by_hand.is_some_and(|by_hand| by_hand.button == ask.button)
        };
        if let Some(call) = state.calls.iter().find(pressed) {
            return Ok(done(call));
        }
        self.host().prepare(Some(&state), None).await;
        let call = match by_hand::check(&state, ask.call_id, self.me(), &self.context()) {
            Ok(call) => call,
            Err(refusal) => return Ok(refused(&refusal)),
        };
        let judged = match by_hand::given_up(&state, self.context().now_ms) {
            Some((given_up, amount_minor)) if given_up == call.call_id => {
                captured(&call, amount_minor, &ask.said)
            }
            _ => self.judged(&call, &ask.said).await,
        };
        let settlement = match judged {
            Ok(settlement) => settlement,
            Err(detail) => return Ok(ByHandAnswer::Refused { detail }),
        };
        let ctx = self.context();
        let by_hand = ByHand {
            by: ask.operator,
            reason: ask.reason,
            at_ms: ctx.now_ms,
            button: ask.button,
            is_contradicted: false,
        };
        let word = Word { call_id: ask.call_id, sends: ask.sends, settlement, by_hand };
        if !ask.is_final {
            // The same checks, on a copy.
            let mut state: ObjectState = ObjectState::clone(&state);
            return Ok(match by_hand::settle(&mut state, &word, self.me(), &ctx)? {
                Ok(()) => state.call(word.call_id).map_or_else(
                    || refused(&NO_CALL),
                    |call| ByHandAnswer::Would { how: by_hand::ended(call).unwrap_or_default() },
                ),
                Err(refusal) => refused(&refusal),
            });
        }
        let settled =
            self.store().transaction(&ctx, |state| by_hand::settle(state, &word, self.me(), &ctx))?;
        if let Err(refusal) = settled {
            return Ok(refused(&refusal));
        }
        self.wake_within(PATIENCE).await;
        let state = self.store().read()?;
        let call = state.iter().flat_map(|state| &state.calls).find(|call| call.call_id == ask.call_id);
        Ok(call.map_or_else(|| refused(&NO_CALL), done))
    }

    /// Sends nothing more of a call for a while.
    pub(super) fn hold(&self, call_id: u32) -> Result<ByHandAnswer, Bug> {
        let ctx = self.context();
        let held = self
            .store()
            .transaction(&ctx, |state| Ok::<_, Bug>(by_hand::hold(state, call_id, self.me(), &ctx)))?;
        Ok(match held {
            Ok(until_ms) => ByHandAnswer::Held { until_ms },
            Err(refusal) => refused(&refusal),
        })
    }

    /// What the call's settlement would be. An error says what the provider shows instead.
    async fn judged(&self, call: &ProviderCall, said: &Said) -> Result<Settlement, String> {
        let (id, is_done) = match said {
            Said::NotExecuted => {
                let look_up = self.look(call).await;
                return match &look_up {
                    LookUp::Found(_) | LookUp::LeftOpen(_) => Err(format!(
                        "{}. “Check with the provider” takes that in",
                        provider_snapshot(call, &look_up).text
                    )),
                    _ => Ok(Settlement::NotExecuted),
                };
            }
            Said::Executed { id, is_done } => (id, *is_done),
        };
        call.provider.check_id(call, id)?;
        let answer = match call.provider.named_request(call, id) {
            None => None,
            Some(request) => {
                let mut span = None;
                let asked = Box::pin(self.host().transport.get(call.provider, &request, &mut span));
                match select(asked, Delay::from(PROVIDER_WITHIN)).await {
                    Either::Left((answer, _)) => {
                        Some(answer.map_err(|reason| format!("Stripe could not be asked: {reason}"))?)
                    }
                    Either::Right(_) => return Err("Stripe did not answer in time".to_owned()),
                }
            }
        };
        let reply: ProviderReply = call.provider.read_named(call, id, answer.as_ref(), is_done)?;
        Ok(Settlement::Answered(reply))
    }

    /// What the provider's books show of a call now. Nothing is changed there or here.
    async fn look(&self, call: &ProviderCall) -> LookUp {
        let sent_to = call.evidence.sent_to.as_ref();
        if sent_to.is_some_and(|sent_to| sent_to.has_changed(call.credential(&self.context()))) {
            let reason =
                "it was sent with another key than the configured one: look in that one’s account".to_owned();
            return LookUp::Inconclusive { from_the_start: true, reason };
        }
        let look = Box::pin(async {
            let mut asked = call.clone();
            asked.look_up = None;
            // What was left open is only looked at, and only the call itself is asked for.
            asked.evidence.closing = None;
            asked.evidence.sent_to = None;
            for _ in 0..PAGES_MAX {
                match self.host().transport.look_up(&asked, &mut None).await {
                    LookUp::More { after } => {
                        asked.look_up = Some(LookUpProgress { after, asked_at_ms: 0 });
                    }
                    end => return end,
                }
            }
            let reason = format!("not on the newest {PAGES_MAX} pages of its list");
            LookUp::Inconclusive { from_the_start: true, reason }
        });
        match select(look, Delay::from(PROVIDER_WITHIN)).await {
            Either::Left((look_up, _)) => look_up,
            Either::Right(_) => {
                LookUp::Inconclusive { from_the_start: true, reason: "it did not answer in time".to_owned() }
            }
        }
    }
}

/// How a capture ended that had failed, in the operator's word: there is nothing to compare it with.
fn captured(call: &ProviderCall, amount_minor: u64, said: &Said) -> Result<Settlement, String> {
    let Said::Executed { id, is_done: true } = said else { return Ok(Settlement::NotExecuted) };
    call.provider.check_id(call, id)?;
    let (result, request_id) = (ProviderResult::Captured { amount_minor }, Some(id.clone()));
    Ok(Settlement::Answered(ProviderReply { status: 200, result, request_id }))
}

fn refused(refusal: &Refusal) -> ByHandAnswer {
    ByHandAnswer::Refused { detail: refusal.message() }
}

fn done(call: &ProviderCall) -> ByHandAnswer {
    ByHandAnswer::Settled { how: by_hand::ended(call).unwrap_or_default() }
}

/// What the provider shows, for a person.
fn provider_snapshot(call: &ProviderCall, look_up: &LookUp) -> ProviderSnapshot {
    if !call.provider.answers_questions() {
        let text = "Adyen cannot be asked: look for the reference in the Customer Area".to_owned();
        return ProviderSnapshot {
            text,
            id: call.evidence.provider_id.clone(),
            is_found: false,
            is_silent: false,
        };
    }
    let (text, id, is_found) = match look_up {
        LookUp::Found(reply) | LookUp::Tentative(reply) | LookUp::LeftOpen(reply) => {
            let id = by_hand::id_in(reply).map(str::to_owned);
            let name = reply.result.name().replace('_', " ");
            let open = if matches!(look_up, LookUp::LeftOpen(_)) { ", still open" } else { "" };
            let shown = id.as_ref().map_or_else(|| "it".to_owned(), Clone::clone);
            (format!("Stripe shows {shown}: {name}{open}"), id, !matches!(look_up, LookUp::Tentative(_)))
        }
        LookUp::Unconfirmed(unconfirmed) => {
            let id = unconfirmed.provider_id.clone();
            let shown = id.as_ref().map(|id| format!("{id}: ")).unwrap_or_default();
            (format!("Stripe shows {shown}{}", unconfirmed.reason), id, true)
        }
        LookUp::Absent | LookUp::More { .. } => ("Stripe shows nothing of it".to_owned(), None, false),
        LookUp::Inconclusive { reason, .. } | LookUp::NoClient { reason } => {
            (format!("Stripe cannot say: {reason}"), None, false)
        }
        LookUp::Identity(_) => ("Stripe cannot say".to_owned(), None, false),
    };
    let is_silent =
        matches!(look_up, LookUp::Inconclusive { .. } | LookUp::NoClient { .. } | LookUp::Identity(_));
    ProviderSnapshot { text, id, is_found, is_silent }
}

/// What came of the call, the newest last.
fn lines(timeline: Vec<TimelineEntry>, call: &ProviderCall) -> Vec<TimelineEntry> {
    let is_its = |entry: &TimelineEntry| {
        entry.key_id == call.key_id
            && (matches!(entry.event.as_str(), "call_outcome" | "look_up")
                || (matches!(entry.event.as_str(), "call_sent" | "call_held")
                    && entry.detail.starts_with(&call.name)))
    };
    let mut lines: Vec<TimelineEntry> = timeline.into_iter().filter(is_its).collect();
    let cut = lines.len().saturating_sub(LINES_SHOWN);
    lines.split_off(cut)
}
