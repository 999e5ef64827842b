//! A payment and its refunds, as an object keeps them: the state machine that [`transitions`](crate::transitions) move, and nothing else
//! does. Here is what is, and what it says of itself; nothing here asks, sends or writes.
//!
//! ```text
//!              ┌───────────► requires_action ──┐  bank's page
//!              │                 │   │         ▼
//!  (new) ─► processing ──► (provider decides later: still processing)
//!    ▲         │  │              │   │
//!    │ order   │  └─► requires_capture ── capture ──► succeeded ──► refunds, never more than was captured
//!    │ again   ▼                 └── void ──► canceled      ▲
//!    └──── declined, failed                                 └── at once, if the payment captures by itself
//! ```
//!
//! What was decided can still turn: Adyen's capture can fail days later (`capture_failed`) and be made again by Adyen itself,
//! a reservation lapses (`expired`) or can't be captured after all (`declined`, at Stripe), and a bank takes money back ([`Dispute`]).
//!
//! A move that is under way is written down before its call is sent ([`Payment::pending`]; a refund as a row of its own):
//! what it would take is reserved, so that the sums hold however many ask at once and however late the provider answers.

pub mod card;
pub mod customer;
pub mod dispute;
pub mod id;
mod json;
pub mod locale;
pub mod money;
pub mod natural_key;
pub mod operation;
pub mod order_link;
pub mod own_keys;
pub mod provider;
pub mod provider_event;
pub mod receipt_content;
pub mod records;
pub mod refund;
pub mod resource;
pub mod result;
pub mod status_query;
pub mod statuses;
pub mod tries;

pub use dispute::{Dispute, DisputeStatus};
pub use refund::{Refund, RefundElsewhere, RefundReason, RefundState, refunded_minor};
pub use result::Failure;
use serde::{Deserialize, Serialize};

use crate::payment::card::Card;
use crate::payment::id::{PaymentId, RefundId};
use crate::payment::money::{AmountMinor, Currency};
use crate::payment::provider::Provider;
use crate::payment::receipt_content::ReceiptContent;
use crate::payment::result::RemoteState;
use once::skip::is_false;

/// How a payment stands.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum PaymentState {
    /// The provider is being asked, or its answer is not known.
    Authorizing,
    /// The person who pays must go to the bank's page.
    RequiresAction {
        /// The bank's page.
        url: String,
    },
    /// The provider has it and decides later.
    Processing,
    /// The money is reserved.
    Authorized,
    /// The money, or a part of what was reserved, was taken.
    Captured {
        /// How much, in minor units.
        amount_minor: u64,
    },
    /// The provider has taken the capture back days later. It may capture again by itself, so this counts as taken: no other
    /// move or try may begin.
    CaptureFailed {
        /// What was to be taken, in minor units.
        amount_minor: u64,
    },
    /// Nothing was taken, and the reservation is gone.
    Canceled,
    /// Nothing was taken in time, and the reservation has lapsed.
    Expired,
    /// Nothing was taken: an answer for good.
    Failed(Failure),
}

/// A move of the whole payment that is under way: no other may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "move")]
pub enum InFlight {
    /// A capture.
    Capture {
        /// The key under which it runs.
        key_id: u32,
        /// How much, in minor units.
        amount_minor: u64,
        /// The provider has taken it over, and tells later how it ended.
        #[serde(default)]
        received: bool,
    },
    /// A void.
    Void {
        /// The key under which it runs.
        key_id: u32,
        /// The provider has taken it over, and tells later how it ended.
        #[serde(default)]
        received: bool,
    },
}

impl InFlight {
    /// The key under which it runs.
    pub const fn key_id(&self) -> u32 {
        match self {
            Self::Capture { key_id, .. } | Self::Void { key_id, .. } => *key_id,
        }
    }

    /// The provider has taken it over, and tells later how it ended.
    pub const fn is_received(&self) -> bool {
        match self {
            Self::Capture { received, .. } | Self::Void { received, .. } => *received,
        }
    }

    /// The operation.
    pub const fn operation(&self) -> &'static str {
        match self {
            Self::Capture { .. } => "capture",
            Self::Void { .. } => "void",
        }
    }

    /// The state, while it is under way.
    pub const fn state(&self) -> &'static str {
        match self {
            Self::Capture { .. } => "capturing",
            Self::Void { .. } => "voiding",
        }
    }
}

/// A capture or a void that the provider had taken over and refused afterwards.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FailedOperation {
    /// `capture`, `void`
    pub operation: String,
    /// The provider's reason.
    pub code: String,
}

/// When the provider is asked for the truth about a payment that is not decided yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PollSchedule {
    /// In ms since the epoch.
    pub next_at_ms: u64,
    /// How often it was asked in vain: sets the pauses.
    pub tries: u32,
    /// When it was asked last, in ms since the epoch.
    #[serde(default)]
    pub asked_at_ms: Option<u64>,
    /// When the provider, or a person, last gave cause to ask, in ms since the epoch: the pauses begin anew.
    #[serde(default)]
    pub told_at_ms: Option<u64>,
}

/// What seems decided and can still change at the provider without a word of it. It is asked for a few times, ever more
/// rarely, and then no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Watch {
    /// What it is.
    pub of: Watched,
    /// Since when it stands as it does, in ms since the epoch.
    pub since_ms: u64,
    /// How often it was asked for since then.
    pub asked: u32,
}

/// What is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "watched")]
pub enum Watched {
    /// A reservation lapses, or is captured or given up elsewhere.
    Reservation {
        /// Until when it can be captured, in ms since the epoch, if that is known.
        #[serde(default)]
        until_ms: Option<u64>,
    },
    /// A bank decides about a dispute.
    Dispute,
    /// Money that was taken is given back elsewhere, and what was given back comes back.
    Money {
        /// How many refunds have succeeded.
        refunds: u32,
        /// What others have given back, in minor units.
        elsewhere_minor: u64,
    },
    /// No try is paid. What was declined is confirmed again, and money that was given back comes back.
    Tries {
        /// The newest one.
        attempt: u32,
        /// Of how many the money was refunded, or giving it back was refused.
        given_back: u32,
    },
}

/// Something seems decided, and the provider has told that there is news of it: it is asked until it answers.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PendingQuery {
    /// The refund that it is about, else the payment.
    pub refund: Option<RefundId>,
    /// The newest event about it. Only an answer to a question that was asked since then ends the doubt.
    pub event_id: String,
}

/// A payment.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Payment {
    /// Its public id.
    pub id: PaymentId,
    /// What is to be paid.
    pub amount: AmountMinor,
    /// In which currency.
    pub currency: Currency,
    /// Whether the money is taken at once, else only reserved.
    pub capture: bool,
    /// The merchant's order: one is paid once.
    pub order_id: Option<String>,
    /// For the merchant, and on the provider's dashboard.
    pub description: Option<String>,
    /// The provider's customer.
    pub customer: Option<String>,
    /// The merchant's own data, sorted by name.
    pub metadata: Vec<(String, String)>,
    /// Where the person goes after the bank's page.
    pub return_url: Option<String>,
    /// To whom receipts go.
    #[serde(default)]
    pub receipt_email: Option<String>,
    /// What they are written from, beside the payment itself.
    #[serde(default, skip_serializing_if = "ReceiptContent::is_empty")]
    pub receipt_content: ReceiptContent,
    /// Which provider this try is with: every later call goes there.
    pub provider: Provider,
    /// The merchant's account there, where the provider wants it with every call; at Stripe also one with [keys of its own](own_keys).
    pub merchant_account: Option<String>,
    /// The provider's id of this try, once it has said one.
    pub provider_payment: Option<String>,
    /// The revision of the order's link through which this try was made.
    #[serde(default)]
    pub link_revision: Option<u32>,
    /// The number of the try, from 1: another one begins only after the last has failed definitively.
    pub attempt: u32,
    /// How many captures and voids were begun: each one has a derived key of its own.
    pub moves: u32,
    /// How it stands.
    pub state: PaymentState,
    /// What is under way.
    pub pending: Option<InFlight>,
    /// The last capture or void, if the provider had taken it over and refused it afterwards.
    #[serde(default)]
    pub failed_operation: Option<FailedOperation>,
    /// When the newest capture, void or expiry happened that the provider has told of, by its clock, in ms since the epoch.
    /// What it dates before that is old news.
    #[serde(default)]
    pub ended_at_ms: Option<u64>,
    /// The provider's id of the capture that took the money, where the provider tells by itself of captures. A payment of before that was noted has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub captured_by: Option<String>,
    /// What banks want back: all of its disputes, [as one](Dispute::of_all).
    #[serde(default)]
    pub dispute: Option<Dispute>,
    /// Each of these disputes, the newest first. A payment of before they were kept has none here: see [`each_dispute`](Self::each_dispute).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disputes: Vec<Dispute>,
    /// The receipt is staged: a capture that is made again makes no second one.
    #[serde(default)]
    pub receipted: bool,
    /// When the provider is asked how it stands, while that is open.
    pub check: Option<PollSchedule>,
    /// What was told of and not answered yet: at most one for the payment and one for each refund.
    #[serde(default)]
    pub doubts: Vec<PendingQuery>,
    /// What is asked for although it seems decided.
    #[serde(default)]
    pub watch: Option<Watch>,
    /// What was given back of it by others than us, such as a person at the provider's dashboard, in minor units.
    #[serde(default)]
    pub refunded_elsewhere_minor: u64,
    /// Its provider was told the amount in the provider's own minor units. A payment of before that was done has no such mark.
    #[serde(default)]
    pub in_provider_units: bool,
    /// Until when what is reserved can be captured, in ms since the epoch, if the provider has said so.
    #[serde(default)]
    pub capture_before_ms: Option<u64>,
    /// What others left reserved that have captured a part, in minor units.
    #[serde(default)]
    pub held_elsewhere_minor: u64,
    /// What the provider shows under this payment's id and nobody has asked for: it is not believed, and a person was told of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disbelieved: Option<String>,
    /// Those of these refunds that the provider tells of one by one.
    #[serde(default)]
    pub refunds_elsewhere: Vec<RefundElsewhere>,
    /// The card that paid, if the provider has said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub card: Option<Card>,
    /// Its personal data was erased: what the provider says of the person later on is not taken in, nor are its own words.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_erased: bool,
    /// When it was made, in ms since the epoch.
    pub created_at_ms: u64,
    /// When this try was captured first, or was reserved while it is not captured, in ms since the epoch by our clock. A payment of before that was
    /// noted has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paid_at_ms: Option<u64>,
}

impl Payment {
    /// The status, as the API says it.
    pub const fn status(&self) -> &'static str {
        match &self.state {
            PaymentState::Authorizing | PaymentState::Processing => "processing",
            PaymentState::RequiresAction { .. } => "requires_action",
            PaymentState::Authorized => "requires_capture",
            PaymentState::Captured { .. } if self.is_disputed() => "disputed",
            PaymentState::Captured { .. } => "succeeded",
            PaymentState::CaptureFailed { .. } => "capture_failed",
            PaymentState::Canceled => "canceled",
            PaymentState::Expired => "expired",
            PaymentState::Failed(Failure { declined: true, .. }) => "declined",
            PaymentState::Failed(_) => "failed",
        }
    }

    /// Each dispute by itself, the newest first: of a payment of before the one as which all were shown.
    pub fn each_dispute(&self) -> &[Dispute] {
        if self.disputes.is_empty() { self.dispute.as_slice() } else { &self.disputes }
    }

    /// Whether a bank wants money back, or has got it.
    pub const fn is_disputed(&self) -> bool {
        matches!(&self.dispute, Some(Dispute { status: DisputeStatus::Open | DisputeStatus::Lost, .. }))
    }

    /// Whether a dispute is not decided.
    pub const fn has_open_dispute(&self) -> bool {
        matches!(&self.dispute, Some(Dispute { status: DisputeStatus::Open, .. }))
    }

    fn claims(&self) -> impl Iterator<Item = &Dispute> {
        self.each_dispute().iter().filter(|dispute| dispute.is_claim())
    }

    /// Whether a bank is deciding who gets the money, so that a refund would give it back twice.
    pub fn forbids_refunds(&self) -> bool {
        self.claims().any(|dispute| dispute.status == DisputeStatus::Open)
    }

    /// What a bank has taken back for good, or may yet, in minor units: it cannot be refunded as well.
    pub fn disputed_minor(&self) -> u64 {
        self.claims().fold(0, |sum, dispute| sum.saturating_add(dispute.amount_minor))
    }

    /// What was taken, in minor units.
    pub const fn captured_minor(&self) -> u64 {
        match &self.state {
            PaymentState::Captured { amount_minor } => *amount_minor,
            _ => 0,
        }
    }

    /// What was taken or may be taken again, in minor units: a capture may fail while a refund of it is under way.
    pub const fn may_be_taken_minor(&self) -> u64 {
        match &self.state {
            PaymentState::CaptureFailed { .. } => self.amount.get(),
            _ => self.captured_minor(),
        }
    }

    /// Whether another try may begin: nothing was taken, nothing will be, and no move of this one is still under way. (That
    /// a void was executed can be learned before its answer is.)
    pub const fn is_over_unpaid(&self) -> bool {
        self.is_over() && self.pending.is_none()
    }

    /// Whether nothing was taken, and nothing is held any more.
    pub const fn is_over(&self) -> bool {
        matches!(&self.state, PaymentState::Failed(_) | PaymentState::Canceled | PaymentState::Expired)
    }

    /// Whether its order is paid, as far as is known: money is held, was taken, or may be taken again.
    pub const fn is_paid(&self) -> bool {
        matches!(
            &self.state,
            PaymentState::Authorized | PaymentState::Captured { .. } | PaymentState::CaptureFailed { .. }
        )
    }

    /// Whether only the provider knows how it goes on.
    pub const fn is_open_at_provider(&self) -> bool {
        matches!(&self.state, PaymentState::RequiresAction { .. } | PaymentState::Processing)
    }

    /// Whether nothing that the provider says can change it any more.
    pub const fn is_final(&self) -> bool {
        matches!(
            &self.state,
            PaymentState::Captured { .. }
                | PaymentState::CaptureFailed { .. }
                | PaymentState::Canceled
                | PaymentState::Expired
                | PaymentState::Failed(_)
        )
    }

    /// What can still be given back, in minor units: refunds under way count as done, and those made elsewhere count.
    pub fn refundable_minor(&self, refunds: &[Refund]) -> u64 {
        let refunded_minor = refunded_minor(refunds).saturating_add(self.refunded_elsewhere_minor);
        self.captured_minor().saturating_sub(refunded_minor)
    }

    /// What was given back or may be yet, by whomever, in minor units.
    pub fn refunded_minor(&self, refunds: &[Refund]) -> u64 {
        self.captured_minor().saturating_sub(self.refundable_minor(refunds))
    }

    /// What a move of money is confirmed against, as one text: the try, what was taken, what was given back, and what a bank has taken back.
    pub fn figures(&self, refunds: &[Refund]) -> String {
        let (captured_minor, disputed_minor) = (self.captured_minor(), self.disputed_minor());
        format!("{}.{captured_minor}.{}.{disputed_minor}", self.attempt, self.refunded_minor(refunds))
    }

    /// The newest event about a refund, or about the payment itself, to which the provider has still to answer.
    pub fn doubt(&self, refund: Option<&RefundId>) -> Option<&str> {
        let doubt = self.doubts.iter().find(|doubt| doubt.refund.as_ref() == refund)?;
        Some(&doubt.event_id)
    }

    /// The provider says with which card it was paid.
    pub(crate) const fn paid_with(&mut self, card: Option<Card>) {
        let is_paid = matches!(&self.state, PaymentState::Authorized | PaymentState::Captured { .. });
        if is_paid && !self.is_erased && card.is_some() {
            self.card = card;
        }
    }

    /// It is paid, and the provider has not said with which card.
    pub(crate) const fn has_unknown_card(&self) -> bool {
        let is_paid = matches!(&self.state, PaymentState::Captured { .. });
        is_paid && !self.is_erased && self.card.is_none()
    }

    /// What the provider says, as far as it is kept.
    fn as_kept(&self, mut found: RemoteState) -> RemoteState {
        if self.is_erased {
            found.forget_text();
        }
        found
    }

    /// The same of what the provider answers to a capture or a void of this payment. That is no late word: what was reserved is gone where its capture
    /// has failed. Gives whether anything changed.
    pub(crate) fn apply_answer(&mut self, found: RemoteState) -> bool {
        match (&self.state, self.as_kept(found)) {
            (PaymentState::Authorized, RemoteState::Failed(failure)) => {
                self.state = PaymentState::Failed(failure);
                true
            }
            (_, found) => self.apply(found),
        }
    }

    /// Takes in what the provider says the payment is. Only forward: what is decided stays decided. What others have captured
    /// beyond the amount is not counted. Gives whether anything changed.
    pub(crate) fn apply(&mut self, found: RemoteState) -> bool {
        let found = self.as_kept(found);
        let captured = |minor: u64| PaymentState::Captured { amount_minor: minor.min(self.amount.get()) };
        let next = match (&self.state, found) {
            // What was taken stays taken, and a late word about an earlier state is old news.
            _ if self.is_final() => return false,
            (_, RemoteState::Captured { amount_minor }) => captured(amount_minor),
            (_, RemoteState::Voided) => PaymentState::Canceled,
            (_, RemoteState::Expired) => PaymentState::Expired,
            (PaymentState::Authorized, _) => return false,
            (_, RemoteState::Authorized) => PaymentState::Authorized,
            (_, RemoteState::RequiresAction { url }) => PaymentState::RequiresAction { url },
            (_, RemoteState::Processing) => PaymentState::Processing,
            (_, RemoteState::Failed(failure)) => PaymentState::Failed(failure),
        };
        let changed = self.state != next;
        self.state = next;
        changed
    }
}
