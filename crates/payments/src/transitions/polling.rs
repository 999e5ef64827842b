//! What only the provider knows: whether the person came back from the bank's page, how a payment or a refund that it has
//! taken in was decided. It is asked when somebody comes back or looks, when it tells that something has happened, and by the
//! alarm, until it answers.
//!
//! What seems decided is not yet final there: a reservation lapses, a refund fails after days, a person captures, cancels or
//! refunds at the dashboard. Webhooks tell of that; should all of them be lost, a few questions find it ([`Watch`]).
//!
//! Asking changes nothing at the provider, so it needs no key and no lease. An answer is taken in only forward.
//!
//! Here is when it is asked, and what; [`answers`](super::answers) takes in what it says.

use serde_json::json;

use crate::engine::{Context, ObjectState};
use crate::payment::id::RefundId;
use crate::payment::refund::{Refund, RefundState};
use crate::payment::result::CallKind;
use crate::payment::status_query::StatusQuery;
use crate::payment::tries::Try;
use crate::payment::{Payment, PaymentState, PendingQuery, PollSchedule, Watch, Watched};
use crate::providers::codec::is_plain;
use crate::transitions::audit::record_for_owner;
use crate::transitions::{give_back, try_queries, try_rows};

/// The pause before the first question, in ms; it doubles with each.
const FIRST_PAUSE_MS: u64 = 5_000;
/// The longest pause, in ms: a day. A bank can take that long to decide.
const PAUSE_MAX_MS: u64 = 86_400_000;
/// After how many questions in vain about what the provider has told of itself a person is to look: more than a day.
const SILENT_TRIES: u32 = 44;
/// Questions that one look at the provider asks at most: an invocation has 50 calls.
const QUESTIONS_MAX: usize = 10;
/// How soon after a question the next one may be asked because somebody looks, in ms.
const LOOK_PAUSE_MS: u64 = 1_000;
const HOUR_MS: u64 = 3_600_000;
const DAY_MS: u64 = 24 * HOUR_MS;
/// When a reservation is asked for, in ms since it was made. Where nothing else is known Stripe's lapse after 4 days 18 hours
/// (Visa, merchant-initiated), 7 days (most), or 30 at most.
/// <https://docs.stripe.com/payments/place-a-hold-on-a-payment-method>
const RESERVATION_ASKED_AFTER_MS: [u64; 5] =
    [DAY_MS, 4 * DAY_MS + 19 * HOUR_MS, 7 * DAY_MS + HOUR_MS, 14 * DAY_MS, 31 * DAY_MS];
/// The same where its end is known, in ms since that end: right after it, and once more should the provider be late.
const LAPSE_ASKED_AFTER_MS: [u64; 3] = [60_000, HOUR_MS, DAY_MS];
/// When money that was taken is asked for, in ms since the capture: somebody may have given it back at the dashboard.
const MONEY_ASKED_AFTER_MS: [u64; 2] = [2 * DAY_MS, 30 * DAY_MS];
/// The same, in ms since the newest change of its refunds: one that succeeded can still fail, after 30 days at most.
/// <https://docs.stripe.com/refunds#failed-refunds>
const REFUNDS_ASKED_AFTER_MS: [u64; 4] = [2 * DAY_MS, 7 * DAY_MS, 16 * DAY_MS, 40 * DAY_MS];
/// When a try that was declined is asked for, in ms since the decline, while nobody tries again: its PaymentIntent has no end of its
/// own, and whoever has its client secret may confirm it again. <https://docs.stripe.com/payments/paymentintents/lifecycle>
const DECLINED_ASKED_AFTER_MS: [u64; 3] = [DAY_MS, 7 * DAY_MS, 30 * DAY_MS];
/// When a dispute is asked for that is open, in ms since it was last seen otherwise: banks take two or three months.
/// <https://docs.stripe.com/disputes/how-disputes-work>
const DISPUTE_ASKED_AFTER_MS: [u64; 7] =
    [2 * DAY_MS, 7 * DAY_MS, 16 * DAY_MS, 30 * DAY_MS, 60 * DAY_MS, 90 * DAY_MS, 120 * DAY_MS];
/// What begins the name of the cause for a question that nobody but the time has given.
const WATCH: &str = "watch";

/// What to ask the provider, in the order in which to ask: what is open there, and what it has told of since it seemed
/// decided. None if it answers none.
pub fn questions(state: &ObjectState) -> Vec<StatusQuery> {
    // Tries that are over may be with another provider.
    let of_tries = try_queries::asked_for(state).filter(|question| question.provider().answers_questions());
    let Some(payment) =
        state.resource.payment.as_ref().filter(|payment| payment.provider.answers_questions())
    else {
        return of_tries.collect();
    };
    let provider = payment.provider;
    let account = || payment.merchant_account.clone();
    let of_payment =
        payment.provider_payment.clone().filter(|_| is_asked_for(payment)).map(|id| StatusQuery::Payment {
            provider,
            account: account(),
            id,
            doubt: payment.doubt(None).map(str::to_owned),
        });
    let of_refunds = state.resource.refunds.iter().filter_map(|refund| {
        let doubt = payment.doubt(Some(&refund.id)).map(str::to_owned);
        let id = refund.provider_refund.clone()?;
        let is_meant = refund.state == RefundState::Pending || doubt.is_some();
        let refund = refund.id.clone();
        is_meant.then(|| StatusQuery::Refund { provider, account: account(), refund, id, doubt })
    });
    of_payment.into_iter().chain(of_refunds).chain(of_tries).collect()
}

fn is_asked_for(payment: &Payment) -> bool {
    // A move of ours that is under way asks for itself.
    let is_doubted =
        watched(payment, &[]).is_some() && payment.pending.is_none() && payment.doubt(None).is_some();
    payment.is_open_at_provider() || is_doubted
}

pub(crate) const fn is_captured(payment: &Payment) -> bool {
    matches!(payment.state, PaymentState::Captured { .. })
}

/// What of a payment that seems decided can still change at its provider.
fn watched(payment: &Payment, refunds: &[Refund]) -> Option<Watched> {
    match payment.state {
        PaymentState::Authorized => Some(Watched::Reservation { until_ms: payment.capture_before_ms }),
        PaymentState::Captured { .. } if payment.has_open_dispute() => Some(Watched::Dispute),
        PaymentState::Captured { .. } => {
            let done = refunds.iter().filter(|refund| refund.state == RefundState::Succeeded);
            Some(Watched::Money {
                refunds: u32::try_from(done.count()).unwrap_or(u32::MAX),
                elsewhere_minor: payment.refunded_elsewhere_minor,
            })
        }
        _ => None,
    }
}

/// Notes that something may have changed although it seems decided: the payment or, by the provider's id of it, a refund.
/// The provider is asked now, and again until it answers. Once all was taken only what is given back of it can change, by us or
/// by a bank: `of_money_back` says whether the event is about that.
pub(crate) fn doubt(
    state: &mut ObjectState,
    refund: Option<&str>,
    of_money_back: bool,
    event_id: &str,
    ctx: &Context,
) {
    let is_captured = state.resource.payment.as_ref().is_some_and(is_captured);
    let is_whole = state.resource.payment.as_ref().is_none_or(|payment| payment.held_elsewhere_minor == 0);
    let is_known = |id: &str| {
        let known = |refund: &Refund| match &refund.provider_refund {
            Some(known) => known == id,
            // One that is not executed, as it seems, is none that could be meant.
            None => !matches!(refund.state, RefundState::Failed { .. }),
        };
        state.resource.refunds.iter().any(known)
    };
    let subjects: Vec<Option<RefundId>> = match refund {
        None if is_captured && is_whole && !of_money_back => Vec::new(),
        None => vec![None],
        // One that was not made here.
        Some(id) if !is_known(id) => vec![None],
        // One whose answer is not taken in yet may be the one that is meant: it has no name at the provider.
        Some(id) => state
            .resource
            .refunds
            .iter()
            .filter(|known| known.provider_refund.as_deref().is_none_or(|known| known == id))
            .map(|refund| Some(refund.id.clone()))
            .collect(),
    };
    doubt_each(state, subjects, event_id, ctx);
}

/// The same about all that can still change.
pub(crate) fn doubt_all(state: &mut ObjectState, event_id: &str, ctx: &Context) {
    // Once money was taken, one question is about all refunds.
    let is_open = state.resource.payment.as_ref().is_some_and(|payment| !is_captured(payment));
    let refunds = state.resource.refunds.iter().filter(|_| is_open).map(|refund| Some(refund.id.clone()));
    let subjects = refunds.chain([None]).collect();
    doubt_each(state, subjects, event_id, ctx);
}

fn doubt_each(state: &mut ObjectState, subjects: Vec<Option<RefundId>>, event_id: &str, ctx: &Context) {
    let Some(payment) =
        state.resource.payment.as_mut().filter(|payment| payment.provider.answers_questions())
    else {
        return;
    };
    for refund in subjects {
        payment.doubts.retain(|doubt| doubt.refund != refund);
        payment.doubts.push(PendingQuery { refund, event_id: event_id.to_owned() });
    }
    told(state, ctx);
}

/// What an unsettled call has made has been told of, under its own key: no list need show it any more. What it is, the look-up says.
pub(crate) fn record_made(
    state: &mut ObjectState,
    payment: Option<&str>,
    refund: Option<&str>,
    key: Option<&str>,
) {
    let Some(call) = state.calls.iter_mut().find(|call| key == Some(&call.provider_key)) else {
        return;
    };
    let made = match call.kind {
        CallKind::Authorize => payment,
        CallKind::Refund => refund,
        CallKind::Capture | CallKind::Void | CallKind::CreateCustomer | CallKind::UpdateCustomer => None,
    };
    if let Some(id) = made.filter(|id| is_plain(id)) {
        call.record_made(id);
    }
}

/// Stripe has told of this payment of its: if that is a try that is over, it is asked until it answers. Gives whether it is.
///
/// A try that was not executed, as it seemed, has no id there: the derived key in the event gives it one.
pub(crate) fn doubt_try(
    state: &mut ObjectState,
    provider_payment: &str,
    provider_key: Option<&str>,
    event_id: &str,
    ctx: &Context,
) -> bool {
    let Some(payment) = &state.resource.payment else { return false };
    let (newest, is_over) = (payment.attempt, payment.is_over() && payment.pending.is_none());
    let is_it = |row: &&mut Try| match &row.provider_payment {
        Some(known) => known == provider_payment,
        None => provider_key == Some(&row.provider_key),
    };
    let Some(row) =
        state.resource.tries.iter_mut().find(is_it).filter(|row| row.attempt != newest || is_over)
    else {
        return false;
    };
    row.provider_payment = Some(provider_payment.to_owned());
    row.asked_for = Some(event_id.to_owned());
    told(state, ctx);
    true
}

/// The same of a refund. Gives whether it is one that gives back the money of a try.
pub(crate) fn doubt_refund_of_try(
    state: &mut ObjectState,
    refund: &str,
    event_id: &str,
    ctx: &Context,
) -> bool {
    let is_its = |row: &&Try| give_back::refund_of(state, row).is_some_and(|(_, id)| id == refund);
    let Some(attempt) = state.resource.tries.iter().find(is_its).map(|row| row.attempt) else { return false };
    if let Some(row) = try_rows::of_mut(state, attempt) {
        row.asked_for = Some(event_id.to_owned());
        told(state, ctx);
    }
    true
}

/// The provider is asked now, and the pauses begin anew.
pub(crate) fn told(state: &mut ObjectState, ctx: &Context) {
    schedule(state, ctx);
    if let Some(check) = state.resource.payment.as_mut().and_then(|payment| payment.check.as_mut()) {
        *check = PollSchedule { next_at_ms: ctx.now_ms, tries: 0, told_at_ms: Some(ctx.now_ms), ..*check };
    }
}

/// What is open or doubted is asked for now.
pub(crate) fn ask_again(state: &mut ObjectState, ctx: &Context) {
    schedule(state, ctx);
    if let Some(check) = state.resource.payment.as_mut().and_then(|payment| payment.check.as_mut()) {
        check.next_at_ms = check.next_at_ms.min(ctx.now_ms);
    }
}

/// Sets when the alarm asks next, after something has changed; or that there is nothing to ask. A doubt about what can not
/// change any more is dropped.
pub fn schedule(state: &mut ObjectState, ctx: &Context) {
    let can_change = |id: &RefundId| {
        state
            .resource
            .refunds
            .iter()
            .any(|refund| refund.id == *id && !matches!(refund.state, RefundState::Failed { .. }))
    };
    if let Some(payment) = &mut state.resource.payment {
        let is_final = payment.is_final() && !is_captured(payment);
        // What was told of before the answer was taken in that ended it.
        if matches!(payment.state, PaymentState::Failed(_)) {
            try_queries::doubt_failed(payment, &mut state.resource.tries);
        }
        payment.doubts.retain(|doubt| doubt.refund.as_ref().map_or(!is_final, can_change));
    }
    let is_open = !questions(state).is_empty();
    watch(state, ctx);
    if let Some(payment) = &mut state.resource.payment {
        let next_at_ms = ctx.now_ms.saturating_add(FIRST_PAUSE_MS);
        let first = PollSchedule { next_at_ms, tries: 0, asked_at_ms: None, told_at_ms: None };
        payment.check = is_open.then(|| payment.check.unwrap_or(first));
    }
}

/// Begins to watch what is decided, anew after each change of it.
fn watch(state: &mut ObjectState, ctx: &Context) {
    let Some(payment) = &state.resource.payment else { return };
    let is_asked = payment.provider.answers_questions() && payment.provider_payment.is_some();
    let of_tries = || try_queries::watched(state).filter(|_| payment.pending.is_none());
    let of = watched(payment, &state.resource.refunds).filter(|_| is_asked).or_else(of_tries);
    let Some(payment) = &mut state.resource.payment else { return };
    if payment.watch.as_ref().map(|watch| watch.of) != of {
        payment.watch = of.map(|of| Watch { of, since_ms: ctx.now_ms, asked: 0 });
    }
}

impl Watch {
    /// When it is asked for next, in ms since the epoch. `None` once that is over.
    pub fn due_at_ms(&self) -> Option<u64> {
        let after_ms: &[u64] = match self.of {
            Watched::Reservation { until_ms: Some(until_ms) } => {
                let [soon, later, latest] = LAPSE_ASKED_AFTER_MS.map(|ms| until_ms.saturating_add(ms));
                let mut at_ms = [self.since_ms.saturating_add(DAY_MS), soon, later, latest];
                at_ms.sort_unstable();
                return at_ms.get(usize::try_from(self.asked).ok()?).copied();
            }
            Watched::Reservation { until_ms: None } => &RESERVATION_ASKED_AFTER_MS,
            Watched::Dispute => &DISPUTE_ASKED_AFTER_MS,
            Watched::Money { refunds: 0, elsewhere_minor: 0 } => &MONEY_ASKED_AFTER_MS,
            Watched::Money { .. } => &REFUNDS_ASKED_AFTER_MS,
            Watched::Tries { given_back: 0, .. } => &DECLINED_ASKED_AFTER_MS,
            Watched::Tries { .. } => &REFUNDS_ASKED_AFTER_MS,
        };
        let after_ms = after_ms.get(usize::try_from(self.asked).ok()?)?;
        Some(self.since_ms.saturating_add(*after_ms))
    }
}

/// When the alarm asks next about a payment, in ms since the epoch.
pub fn due_at_ms(payment: &Payment) -> Option<u64> {
    let watched_at_ms = payment.watch.as_ref().and_then(Watch::due_at_ms);
    payment.check.map(|check| check.next_at_ms).into_iter().chain(watched_at_ms).min()
}

/// If it is time to ask for what is watched, that is a doubt as if the provider had told of something.
fn doubt_watched(state: &mut ObjectState, ctx: &Context) {
    let Some(watch) = state.resource.payment.as_mut().and_then(|payment| payment.watch.as_mut()) else {
        return;
    };
    if watch.due_at_ms().is_none_or(|due_at_ms| due_at_ms > ctx.now_ms) {
        return;
    }
    // However late the alarm was: one question is enough.
    while watch.due_at_ms().is_some_and(|due_at_ms| due_at_ms <= ctx.now_ms) {
        watch.asked = watch.asked.saturating_add(1);
    }
    let (of, event_id) = (watch.of, format!("{WATCH} {}", watch.asked));
    let is_open = !questions(state).is_empty();
    try_queries::doubt_watched(state, &event_id);
    if matches!(of, Watched::Tries { .. }) {
        return told(state, ctx);
    }
    match &mut state.resource.payment {
        // It is asked with what is open, and that goes on as it was.
        Some(payment) if is_open => {
            if payment.doubt(None).is_none() {
                payment.doubts.push(PendingQuery { refund: None, event_id });
            }
        }
        _ => doubt_each(state, vec![None], &event_id, ctx),
    }
}

/// The provider is being asked: what is due now comes again soon, when it may have answered.
pub fn put_off(state: &mut ObjectState, ctx: &Context) {
    doubt_watched(state, ctx);
    if let Some(check) = state.resource.payment.as_mut().and_then(|payment| payment.check.as_mut()) {
        check.next_at_ms = check.next_at_ms.max(ctx.now_ms.saturating_add(LOOK_PAUSE_MS));
    }
}

/// Who has the provider asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asker {
    /// Somebody who looks, and waits for the answer: asked as soon as [`look_wait_ms`] allows.
    Waiting,
    /// The alarm, or an event: asked when it is due.
    Background,
}

/// Whether the provider is to be asked now. If so the next time is set at once: whoever else looks meanwhile asks nothing.
pub fn begin(state: &mut ObjectState, asker: Asker, ctx: &Context) -> Vec<StatusQuery> {
    doubt_watched(state, ctx);
    let Some(payment) = &mut state.resource.payment else {
        return Vec::new();
    };
    let Some(check) = payment.check else {
        return Vec::new();
    };
    if check.next_at_ms > ctx.now_ms && !(asker == Asker::Waiting && look_wait_ms(&check, ctx) == 0) {
        return Vec::new();
    }
    let since_ms = check.told_at_ms.unwrap_or(0).max(payment.created_at_ms);
    let age_ms = ctx.now_ms.saturating_sub(since_ms);
    let pause_ms = pause_ms(check.tries, age_ms, ctx.jitter_permille);
    payment.check = Some(PollSchedule {
        next_at_ms: ctx.now_ms.saturating_add(pause_ms),
        tries: check.tries.saturating_add(1),
        asked_at_ms: Some(ctx.now_ms),
        ..check
    });
    if check.tries == SILENT_TRIES {
        silent(state, ctx);
    }
    let questions = in_turn(questions(state), check.tries);
    questions.into_iter().map(|question| at_home(state, question, ctx)).collect()
}

/// The question, or first the one whether it would be asked in the right account.
fn at_home(state: &mut ObjectState, question: StatusQuery, ctx: &Context) -> StatusQuery {
    let provider = question.provider();
    let payment = match &question {
        StatusQuery::Payment { id, .. }
        | StatusQuery::Refunds { id, .. }
        | StatusQuery::Disputes { id, .. } => Some(id.clone()),
        StatusQuery::Refund { .. } => {
            state.resource.payment.as_ref().and_then(|payment| payment.provider_payment.clone())
        }
        StatusQuery::Home { .. } => None,
    };
    let Some(payment) = payment else { return question };
    let Some(sent_to) = state.account_of_mut(provider, &payment) else { return question };
    if sent_to.has_changed(ctx.credential(provider, question.account())) {
        return StatusQuery::Home { payment, question: Box::new(question) };
    }
    sent_to.away = None;
    question
}

/// For a person: the provider has told that something happened, and does not say what.
fn silent(state: &mut ObjectState, ctx: &Context) {
    // That it is asked with another account's key is shown already.
    if state.calls.iter().any(|call| call.needs_review().is_some()) {
        return;
    }
    let Some(payment) = state.resource.payment.as_ref().filter(|payment| !payment.doubts.is_empty()) else {
        return;
    };
    let events: Vec<&str> = payment.doubts.iter().map(|doubt| doubt.event_id.as_str()).collect();
    let (subject, data) = (payment.id.to_string(), json!({ "events": events }));
    record_for_owner(state, "provider.silent", subject, data, ctx);
}

/// As many of the questions as one look asks; the next look asks the ones after these.
fn in_turn(mut questions: Vec<StatusQuery>, tries: u32) -> Vec<StatusQuery> {
    if questions.len() > QUESTIONS_MAX {
        let turns = usize::try_from(tries).unwrap_or(0);
        let first = turns.wrapping_mul(QUESTIONS_MAX) % questions.len();
        questions.rotate_left(first);
        questions.truncate(QUESTIONS_MAX);
    }
    questions
}

/// How long it is, in ms, until somebody who looks may ask.
pub fn look_wait_ms(check: &PollSchedule, ctx: &Context) -> u64 {
    let may_at_ms = check.asked_at_ms.map_or(0, |at_ms| at_ms.saturating_add(LOOK_PAUSE_MS));
    may_at_ms.saturating_sub(ctx.now_ms).min(LOOK_PAUSE_MS)
}

/// The pause after a question: the older the payment is, or the last news of it, the rarer it is asked for.
fn pause_ms(tries: u32, age_ms: u64, jitter_permille: u16) -> u64 {
    let doubled = FIRST_PAUSE_MS.saturating_mul(1 << tries.min(6));
    let pause_ms = doubled.max(age_ms / 8).min(PAUSE_MAX_MS);
    pause_ms.saturating_add(pause_ms / 8 * u64::from(jitter_permille.min(1000)) / 1000)
}
