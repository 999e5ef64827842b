//! A refund, and how it stands.

use serde::{Deserialize, Serialize};

use crate::payment::id::RefundId;
use crate::payment::money::AmountMinor;

/// Why money is given back; the words are Stripe's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefundReason {
    /// The customer asked for it.
    RequestedByCustomer,
    /// It was paid twice, elsewhere.
    Duplicate,
    /// It was not the card holder who paid.
    Fraudulent,
}

impl RefundReason {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::RequestedByCustomer, Self::Duplicate, Self::Fraudulent];

    /// As it is written.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RequestedByCustomer => "requested_by_customer",
            Self::Duplicate => "duplicate",
            Self::Fraudulent => "fraudulent",
        }
    }

    /// From the word.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == text)
    }
}

/// How a refund stands.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum RefundState {
    /// The provider is being asked, or its answer is not known: the amount is reserved.
    Requested,
    /// The provider has it and decides later.
    Pending,
    /// Given back.
    Succeeded,
    /// Not given back: the amount can be refunded again.
    Failed {
        /// The provider's code.
        code: String,
        /// For the merchant.
        message: String,
    },
}

/// A refund that had been made and failed afterwards, and that its provider may repeat by itself: until then it has not failed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct UndoneRefund {
    /// The provider's code.
    pub code: String,
    /// Until when it may be repeated, in ms since the epoch.
    pub until_ms: u64,
    /// It was known to have succeeded.
    pub was_done: bool,
}

/// A refund.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Refund {
    /// Its public id.
    pub id: RefundId,
    /// The key under which it was asked for.
    pub key_id: u32,
    /// How much.
    pub amount: AmountMinor,
    /// Why.
    pub reason: RefundReason,
    /// How it stands.
    pub state: RefundState,
    /// The provider's id of it, once it has said one.
    pub provider_refund: Option<String>,
    /// When its newest news happened that the provider has told by itself, by its clock, in ms since the epoch. What it dates before that is old.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told_at_ms: Option<u64>,
    /// It was undone, and may be repeated: while it is [`Pending`](RefundState::Pending).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undone: Option<UndoneRefund>,
    /// When it was asked for, in ms since the epoch.
    pub created_at_ms: u64,
    /// The object's version with its newest change.
    #[serde(default)]
    pub version: u64,
}

impl Refund {
    /// The status, as the API says it.
    pub const fn status(&self) -> &'static str {
        match &self.state {
            RefundState::Requested | RefundState::Pending => "pending",
            RefundState::Succeeded => "succeeded",
            RefundState::Failed { .. } => "failed",
        }
    }

    /// Takes in what the provider says. A refund that was done can still come back: then it has failed. Gives whether
    /// anything changed.
    pub(crate) fn apply(&mut self, state: RefundState) -> bool {
        let moves = matches!(
            (&self.state, &state),
            (RefundState::Pending, RefundState::Succeeded)
                | (RefundState::Pending | RefundState::Succeeded, RefundState::Failed { .. })
        );
        if moves {
            self.state = state;
        }
        moves
    }

    /// It has failed for good, whatever it was.
    pub(crate) fn fail(&mut self, code: String, message: &str) {
        self.state = RefundState::Failed { code, message: message.to_owned() };
        self.undone = None;
    }
}

/// A refund that was not made here.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RefundElsewhere {
    /// The provider's id of it.
    pub id: String,
    /// How much, in minor units.
    pub amount_minor: u64,
    /// It was refused, or has come back.
    pub has_failed: bool,
    /// When that was, by the provider's clock, in ms since the epoch.
    pub at_ms: Option<u64>,
    /// It has come back, and may be made again until then, in ms since the epoch: so long it counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undone_until_ms: Option<u64>,
}

impl RefundElsewhere {
    /// How many are known one by one; each further one is for a person.
    const MAX: usize = 200;

    /// Takes in what is told of one, unless something newer is known of it. `false` where it is one too many.
    pub(crate) fn take(known: &mut Vec<Self>, told: Self) -> bool {
        let is_full = known.len() >= Self::MAX;
        match known.iter_mut().find(|one| one.id == told.id) {
            Some(one) if told.at_ms < one.at_ms => {}
            Some(one) => *one = told,
            None if is_full => return false,
            None => known.push(told),
        }
        true
    }

    /// What was given back by them, in minor units.
    pub(crate) fn sum_minor(known: &[Self]) -> u64 {
        let made = known.iter().filter(|refund| !refund.has_failed);
        made.fold(0, |sum, refund| sum.saturating_add(refund.amount_minor))
    }
}

/// What we have given back or may yet, in minor units: what counts against the captured amount.
pub fn refunded_minor(refunds: &[Refund]) -> u64 {
    let counts = |refund: &&Refund| !matches!(refund.state, RefundState::Failed { .. });
    refunds.iter().filter(counts).fold(0, |sum, refund| sum.saturating_add(refund.amount.get()))
}
