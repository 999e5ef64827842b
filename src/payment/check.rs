//! What only the provider knows: whether the person came back from the bank's page, how a payment or a refund that it has
//! taken in was decided. It is asked when somebody comes back or looks, when it tells that something has happened, and by the
//! alarm, until it answers.
//!
//! Asking changes nothing at the provider, so it needs no key and no lease. An answer is taken in only forward.

use serde_json::json;

use crate::flows::payment::entered;
use crate::machine::context::{Bug, Context};
use crate::machine::id::RefundId;
use crate::machine::rows::{AuditRecord, Rows};
use crate::payment::news::refund_moved;
use crate::payment::{Check, Doubt, Payment, PaymentState, RefundState};
use crate::providers::Provider;

use crate::machine::call::Found;

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

/// What to ask the provider.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Question {
    /// How the payment stands.
    Payment {
        /// Whom to ask.
        provider: Provider,
        /// The provider's id of the payment.
        id: String,
        /// The event whose doubt the answer ends.
        doubt: Option<String>,
    },
    /// How a refund stands.
    Refund {
        /// Whom to ask.
        provider: Provider,
        /// Ours.
        refund: RefundId,
        /// The provider's id of the refund.
        id: String,
        /// The event whose doubt the answer ends.
        doubt: Option<String>,
    },
}

impl Question {
    /// Whom to ask.
    pub const fn provider(&self) -> Provider {
        match self {
            Self::Payment { provider, .. } | Self::Refund { provider, .. } => *provider,
        }
    }
}

/// What the provider says.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Truth {
    /// About the payment.
    Payment(Found),
    /// About the refund: [`RefundState::Pending`], done, or failed.
    Refund(RefundState),
    /// It could not say.
    Silence,
}

/// What to ask the provider, in the order in which to ask: what is open there, and what it has told of since it seemed
/// decided. None if it answers none.
pub fn questions(rows: &Rows) -> Vec<Question> {
    let Some(payment) = rows.payment.as_ref().filter(|payment| payment.provider.answers_questions()) else {
        return Vec::new();
    };
    let provider = payment.provider;
    let of_payment = payment.provider_payment.clone().filter(|_| is_asked_for(payment)).map(|id| {
        let doubt = payment.doubt(None).map(str::to_owned);
        Question::Payment { provider, id, doubt }
    });
    let of_refunds = rows.refunds.iter().filter_map(|refund| {
        let doubt = payment.doubt(Some(&refund.id)).map(str::to_owned);
        let id = refund.provider_refund.clone()?;
        let is_meant = refund.state == RefundState::Pending || doubt.is_some();
        is_meant.then(|| Question::Refund { provider, refund: refund.id.clone(), id, doubt })
    });
    of_payment.into_iter().chain(of_refunds).collect()
}

fn is_asked_for(payment: &Payment) -> bool {
    // A move of ours that is under way asks for itself.
    let is_doubted = payment.state == PaymentState::Authorized
        && payment.pending.is_none()
        && payment.doubt(None).is_some();
    payment.is_open_at_provider() || is_doubted
}

/// Notes that something may have changed although it seems decided: the payment or, by the provider's id of it, a refund.
/// The provider is asked now, and again until it answers.
pub(super) fn doubt(rows: &mut Rows, refund: Option<&str>, event_id: &str, ctx: &Context) {
    let subjects: Vec<Option<RefundId>> = match refund {
        None => vec![None],
        // One whose answer is not taken in yet may be the one that is meant: it has no name at the provider.
        Some(id) => rows
            .refunds
            .iter()
            .filter(|known| known.provider_refund.as_deref().is_none_or(|known| known == id))
            .map(|refund| Some(refund.id.clone()))
            .collect(),
    };
    doubt_each(rows, subjects, event_id, ctx);
}

/// The same about all that can still change.
pub(super) fn doubt_all(rows: &mut Rows, event_id: &str, ctx: &Context) {
    let subjects = rows.refunds.iter().map(|refund| Some(refund.id.clone())).chain([None]).collect();
    doubt_each(rows, subjects, event_id, ctx);
}

fn doubt_each(rows: &mut Rows, subjects: Vec<Option<RefundId>>, event_id: &str, ctx: &Context) {
    let Some(payment) = rows.payment.as_mut().filter(|payment| payment.provider.answers_questions()) else {
        return;
    };
    for refund in subjects {
        payment.doubts.retain(|doubt| doubt.refund != refund);
        payment.doubts.push(Doubt { refund, event_id: event_id.to_owned() });
    }
    schedule(rows, ctx);
    if let Some(check) = rows.payment.as_mut().and_then(|payment| payment.check.as_mut()) {
        *check = Check { next_at_ms: ctx.now_ms, tries: 0, told_at_ms: Some(ctx.now_ms), ..*check };
    }
}

/// Sets when the alarm asks next, after something has changed; or that there is nothing to ask. A doubt about what can not
/// change any more is dropped.
pub(crate) fn schedule(rows: &mut Rows, ctx: &Context) {
    let can_change = |id: &RefundId| {
        rows.refunds
            .iter()
            .any(|refund| refund.id == *id && !matches!(refund.state, RefundState::Failed { .. }))
    };
    if let Some(payment) = &mut rows.payment {
        let is_final = payment.is_final();
        payment.doubts.retain(|doubt| doubt.refund.as_ref().map_or(!is_final, can_change));
    }
    let is_open = !questions(rows).is_empty();
    if let Some(payment) = &mut rows.payment {
        let next_at_ms = ctx.now_ms.saturating_add(FIRST_PAUSE_MS);
        let first = Check { next_at_ms, tries: 0, asked_at_ms: None, told_at_ms: None };
        payment.check = is_open.then(|| payment.check.unwrap_or(first));
    }
}

/// Whether the provider is to be asked now. If so the next time is set at once: whoever else looks meanwhile asks nothing.
/// `looking` is somebody who waits for the answer.
pub fn begin(rows: &mut Rows, looking: bool, ctx: &Context) -> Vec<Question> {
    let Some(payment) = &mut rows.payment else {
        return Vec::new();
    };
    let Some(check) = payment.check else {
        return Vec::new();
    };
    if check.next_at_ms > ctx.now_ms && !(looking && look_wait_ms(&check, ctx) == 0) {
        return Vec::new();
    }
    let since_ms = check.told_at_ms.unwrap_or(0).max(payment.created_at_ms);
    let age_ms = ctx.now_ms.saturating_sub(since_ms);
    let pause_ms = pause_ms(check.tries, age_ms, ctx.jitter_permille);
    payment.check = Some(Check {
        next_at_ms: ctx.now_ms.saturating_add(pause_ms),
        tries: check.tries.saturating_add(1),
        asked_at_ms: Some(ctx.now_ms),
        ..check
    });
    if check.tries == SILENT_TRIES {
        silent(rows, ctx);
    }
    in_turn(questions(rows), check.tries)
}

/// For a person: the provider has told that something happened, and does not say what.
fn silent(rows: &mut Rows, ctx: &Context) {
    let Some(payment) = rows.payment.as_ref().filter(|payment| !payment.doubts.is_empty()) else { return };
    let Some(actor) = rows.keys.first().map(|key| key.owner.clone()) else { return };
    let events: Vec<&str> = payment.doubts.iter().map(|doubt| doubt.event_id.as_str()).collect();
    rows.appended.audit.push(AuditRecord {
        at_ms: ctx.now_ms,
        actor,
        action: "provider.silent",
        subject: payment.id.to_string(),
        data: json!({ "events": events }),
    });
}

/// As many of the questions as one look asks; the next look asks the ones after these.
fn in_turn(mut questions: Vec<Question>, tries: u32) -> Vec<Question> {
    if questions.len() > QUESTIONS_MAX {
        let turns = usize::try_from(tries).unwrap_or(0);
        let first = turns.wrapping_mul(QUESTIONS_MAX) % questions.len();
        questions.rotate_left(first);
        questions.truncate(QUESTIONS_MAX);
    }
    questions
}

/// How long it is, in ms, until somebody who looks may ask.
pub fn look_wait_ms(check: &Check, ctx: &Context) -> u64 {
    let may_at_ms = check.asked_at_ms.map_or(0, |at_ms| at_ms.saturating_add(LOOK_PAUSE_MS));
    may_at_ms.saturating_sub(ctx.now_ms).min(LOOK_PAUSE_MS)
}

/// The pause after a question: the older the payment is, or the last news of it, the rarer it is asked for.
fn pause_ms(tries: u32, age_ms: u64, jitter_permille: u16) -> u64 {
    let doubled = FIRST_PAUSE_MS.saturating_mul(1 << tries.min(6));
    let pause_ms = doubled.max(age_ms / 8).min(PAUSE_MAX_MS);
    pause_ms.saturating_add(pause_ms / 8 * u64::from(jitter_permille.min(1000)) / 1000)
}

/// Takes in an answer.
pub fn take(rows: &mut Rows, question: &Question, truth: Truth, ctx: &Context) -> Result<(), Bug> {
    match (question, truth) {
        (Question::Payment { id, doubt, .. }, Truth::Payment(found)) => {
            let Some(payment) = &mut rows.payment else { return Ok(()) };
            // The question may be about a try that another one has followed.
            if payment.provider_payment.as_deref() == Some(id) {
                answered(payment, None, doubt.as_deref());
                if payment.learn(found) {
                    entered(rows, ctx)?;
                }
            }
        }
        (Question::Refund { refund, doubt, .. }, Truth::Refund(state)) => {
            if let Some(payment) = &mut rows.payment {
                answered(payment, Some(refund), doubt.as_deref());
            }
            let Some(refund) = rows.refunds.iter_mut().find(|known| known.id == *refund) else {
                return Ok(());
            };
            if refund.learn(state) {
                let refund = refund.clone();
                refund_moved(rows, &refund, ctx);
            }
        }
        (_, _) => {}
    }
    schedule(rows, ctx);
    Ok(())
}

/// Ends the doubt that the question was about. An event that came after it has a question of its own.
fn answered(payment: &mut Payment, refund: Option<&RefundId>, event_id: Option<&str>) {
    payment
        .doubts
        .retain(|doubt| doubt.refund.as_ref() != refund || Some(doubt.event_id.as_str()) != event_id);
}
