//! What only the provider knows: whether the person came back from the bank's page, how a payment or a refund that it has
//! taken in was decided. It is asked when somebody comes back or looks, and by the alarm.
//!
//! Asking changes nothing at the provider, so it needs no key and no lease. An answer is taken in only forward.

use crate::flows::payment::entered;
use crate::machine::context::{Bug, Context};
use crate::machine::id::RefundId;
use crate::machine::rows::Rows;
use crate::payment::news::refund_moved;
use crate::payment::{Check, Payment, Refund, RefundState};
use crate::providers::Provider;

use crate::machine::call::Found;

/// The pause before the first question, in ms; it doubles with each.
const FIRST_PAUSE_MS: u64 = 5_000;
/// The longest pause, in ms: a day. A bank can take that long to decide.
const PAUSE_MAX_MS: u64 = 86_400_000;
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
    },
    /// How a refund stands.
    Refund {
        /// Whom to ask.
        provider: Provider,
        /// Ours.
        refund: RefundId,
        /// The provider's id of the refund.
        id: String,
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

/// What is open at the provider, in the order in which to ask.
pub fn questions(rows: &Rows) -> Vec<Question> {
    about(rows, Payment::is_open_at_provider, |refund| refund.state == RefundState::Pending)
}

/// The questions about the payment, if it is meant, and about those refunds that are; none if the provider answers none.
pub(super) fn about(
    rows: &Rows,
    payment_is_meant: impl Fn(&Payment) -> bool,
    refund_is_meant: impl Fn(&Refund) -> bool,
) -> Vec<Question> {
    let Some(payment) = rows.payment.as_ref().filter(|payment| payment.provider.answers_questions()) else {
        return Vec::new();
    };
    let provider = payment.provider;
    let id = payment.provider_payment.clone().filter(|_| payment_is_meant(payment));
    let refunds = rows.refunds.iter().filter(|refund| refund_is_meant(refund)).filter_map(|refund| {
        let id = refund.provider_refund.clone()?;
        Some(Question::Refund { provider, refund: refund.id.clone(), id })
    });
    id.map(|id| Question::Payment { provider, id }).into_iter().chain(refunds).collect()
}

/// Sets when the alarm asks next, after something has changed; or that there is nothing to ask.
pub(crate) fn schedule(rows: &mut Rows, ctx: &Context) {
    let is_open = !questions(rows).is_empty();
    if let Some(payment) = &mut rows.payment {
        let next_at_ms = ctx.now_ms.saturating_add(FIRST_PAUSE_MS);
        let first = Check { next_at_ms, tries: 0, asked_at_ms: None };
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
    let age_ms = ctx.now_ms.saturating_sub(payment.created_at_ms);
    let pause_ms = pause_ms(check.tries, age_ms, ctx.jitter_permille);
    payment.check = Some(Check {
        next_at_ms: ctx.now_ms.saturating_add(pause_ms),
        tries: check.tries.saturating_add(1),
        asked_at_ms: Some(ctx.now_ms),
    });
    in_turn(questions(rows), check.tries)
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

/// The pause after a question: the older the payment is, the rarer it is asked for.
fn pause_ms(tries: u32, age_ms: u64, jitter_permille: u16) -> u64 {
    let doubled = FIRST_PAUSE_MS.saturating_mul(1 << tries.min(6));
    let pause_ms = doubled.max(age_ms / 8).min(PAUSE_MAX_MS);
    pause_ms.saturating_add(pause_ms / 8 * u64::from(jitter_permille.min(1000)) / 1000)
}

/// Takes in an answer.
pub fn take(rows: &mut Rows, question: &Question, truth: Truth, ctx: &Context) -> Result<(), Bug> {
    match (question, truth) {
        (Question::Payment { id, .. }, Truth::Payment(found)) => {
            let Some(payment) = &mut rows.payment else { return Ok(()) };
            // The question may be about a try that another one has followed.
            if payment.provider_payment.as_deref() == Some(id) && payment.learn(found) {
                entered(rows, ctx)?;
            }
        }
        (Question::Refund { refund, .. }, Truth::Refund(state)) => {
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
