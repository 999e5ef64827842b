//! What the providers tell by themselves: signed events, unordered, more than once, or never.
//!
//! An event is taken in by the object that it is about, once, and only forward. Where the provider can be asked (Stripe) it
//! is only the news that there is something to ask; where it cannot (Adyen) its content counts.

use serde::{Deserialize, Serialize};

use crate::payment::card::Card;
use crate::payment::dispute::DisputeStatus;
use crate::payment::provider::Provider;
use crate::payment::{Payment, RefundElsewhere};
use once::skip::is_false;

/// An event whose signature is right, as far as an object needs it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Unique at the provider: a second one with this id is the same event.
    pub event_id: String,
    /// Who tells.
    pub provider: Provider,
    /// The account at Stripe, connected to ours, in which it happened, or one with [keys of its own](crate::payment::own_keys); else it was our
    /// own. There an object can carry the same metadata and be nothing of ours.
    #[serde(default)]
    pub account: Option<String>,
    /// The provider's word for what happened, such as `charge.refunded`.
    pub kind: String,
    /// What it says.
    pub news: EventKind,
    /// The inbox could not take it: what a person must see of it is told by its audit record, since whoever brings it cannot keep that either.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_unwritten: bool,
}

/// What an event says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "news")]
pub enum EventKind {
    /// Something has happened: ask. With the provider's id of the refund, if it is about one.
    Ask {
        /// The refund.
        refund: Option<String>,
        /// The provider's id of the payment.
        #[serde(default)]
        payment: Option<String>,
        /// The derived key of the call that made it, if it says so.
        #[serde(default, rename = "derived_key")]
        provider_key: Option<String>,
    },
    /// How a payment's authorisation ended.
    Authorisation(OperationNotice),
    /// How a capture ended, or that it was made again.
    Capture(OperationNotice),
    /// A capture that had been made has failed afterwards.
    CaptureFailed(OperationNotice),
    /// How a void ended.
    Cancellation(OperationNotice),
    /// How a void ended that becomes a refund where the money was taken already ([`OperationNotice::was_taken`]).
    CancelOrRefund(OperationNotice),
    /// What was reserved and not captured has lapsed.
    Expired(OperationNotice),
    /// How a refund ended.
    Refund(OperationNotice),
    /// A bank wants money back, or has given it back.
    Dispute {
        /// The dispute's id, and its amount.
        told: OperationNotice,
        /// How it stands now.
        status: DisputeStatus,
        /// Whether the money is gone from the merchant's balance; `None` where nothing has changed about that.
        withdrawn: Option<bool>,
        /// The bank only asks: no money moves for it.
        #[serde(default)]
        is_inquiry: bool,
    },
    /// Nothing that anything follows from.
    Other,
}

impl EventKind {
    /// How something ended, where it says that.
    pub const fn told(&self) -> Option<&OperationNotice> {
        match self {
            Self::Ask { .. } | Self::Other => None,
            Self::Authorisation(told)
            | Self::Capture(told)
            | Self::CaptureFailed(told)
            | Self::Cancellation(told)
            | Self::CancelOrRefund(told)
            | Self::Expired(told)
            | Self::Refund(told)
            | Self::Dispute { told, .. } => Some(told),
        }
    }

    /// The same, to be changed.
    pub(crate) const fn told_mut(&mut self) -> Option<&mut OperationNotice> {
        match self {
            Self::Ask { .. } | Self::Other => None,
            Self::Authorisation(told)
            | Self::Capture(told)
            | Self::CaptureFailed(told)
            | Self::Cancellation(told)
            | Self::CancelOrRefund(told)
            | Self::Expired(told)
            | Self::Refund(told)
            | Self::Dispute { told, .. } => Some(told),
        }
    }
}

/// How something ended, and where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperationNotice {
    /// The derived key of the call that it answers, if it says so.
    #[serde(rename = "derived_key")]
    pub provider_key: Option<String>,
    /// The provider's id of the payment.
    pub payment: String,
    /// The provider's id of what ended: the payment itself, or its modification.
    pub id: String,
    /// In our minor units; 0 if no amount of ours is what was told.
    pub amount_minor: u64,
    /// In lower case.
    pub currency: String,
    /// Whether it worked.
    pub success: bool,
    /// Why not, in the provider's words, as one word.
    pub reason: String,
    /// It had been done, and was undone afterwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undone: Option<Undone>,
    /// What was to cancel it has refunded it, since the money had been taken.
    #[serde(default, skip_serializing_if = "is_false")]
    pub was_taken: bool,
    /// When it happened, by the provider's clock, in ms since the epoch. `None` if it does not say. It is not signed: it puts
    /// in order what is signed, and decides nothing else.
    #[serde(default)]
    pub at_ms: Option<u64>,
    /// With which card was paid, if it says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub card: Option<Card>,
}

impl OperationNotice {
    /// Whether it is about an earlier try of the order, which is over: a later one may be with another provider.
    pub(crate) fn is_of_another_try(&self, payment: &Payment) -> bool {
        payment.provider_payment.as_deref() != Some(self.payment.as_str())
    }
}

/// What becomes of a refund that had been made and was undone afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Undone {
    /// The provider may make it again by itself.
    MayBeRepeated,
    /// It stays undone.
    ForGood,
}

/// Of a refund that was not made here.
impl From<&OperationNotice> for RefundElsewhere {
    fn from(told: &OperationNotice) -> Self {
        let (id, at_ms) = (told.id.clone(), told.at_ms);
        Self { id, amount_minor: told.amount_minor, has_failed: !told.success, at_ms, undone_until_ms: None }
    }
}

/// What an object makes of an event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ingested {
    /// It is applied.
    #[serde(rename = "in")]
    Applied,
    /// It was applied before.
    #[serde(rename = "known")]
    Duplicate,
    /// The call that it is about is on its way: the event must come again.
    #[serde(rename = "busy")]
    RetryLater,
    /// Nothing here is meant.
    #[serde(rename = "stranger")]
    UnknownResource,
    /// It happened in an account to which nothing of what it names was ever sent.
    OtherAccount,
    /// It is taken in, and a person must see it.
    Alert {
        /// What it says.
        detail: String,
    },
    /// It says what cannot be, as we see it: for a person.
    Contradiction {
        /// What it says, and what we have.
        detail: String,
    },
}
