//! What a provider is asked about a payment that is not decided there, and what it says.

use crate::payment::card::Card;
use crate::payment::dispute::Dispute;
use crate::payment::id::RefundId;
use crate::payment::money::Currency;
use crate::payment::provider::Provider;
use crate::payment::refund::RefundState;
use crate::payment::result::RemoteState;
use once::account::Identity;

/// What to ask the provider.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum StatusQuery {
    /// How the payment stands.
    Payment {
        /// Whom to ask.
        provider: Provider,
        /// In which connected account.
        account: Option<String>,
        /// The provider's id of the payment.
        id: String,
        /// The event whose doubt the answer ends.
        doubt: Option<String>,
    },
    /// How a refund stands.
    Refund {
        /// Whom to ask.
        provider: Provider,
        /// In which connected account.
        account: Option<String>,
        /// Ours.
        refund: RefundId,
        /// The provider's id of the refund.
        id: String,
        /// The event whose doubt the answer ends.
        doubt: Option<String>,
    },
    /// What was given back of the payment, by whomever.
    Refunds {
        /// Whom to ask.
        provider: Provider,
        /// In which connected account.
        account: Option<String>,
        /// The provider's id of the payment.
        id: String,
        /// The event whose doubt the answer ends.
        doubt: Option<String>,
        /// What stood on the pages before this one, the newest first.
        read: Vec<RemoteRefund>,
    },
    /// What banks want back of the payment.
    Disputes {
        /// Whom to ask.
        provider: Provider,
        /// In which connected account.
        account: Option<String>,
        /// The provider's id of the payment.
        id: String,
        /// The event whose doubt the answer ends.
        doubt: Option<String>,
    },
    /// Whether the payment is in the account of the configured credential, which is not the one with which it was made: only
    /// there the answer to the question itself means anything.
    Home {
        /// The provider's id of the payment.
        payment: String,
        /// What is asked then.
        question: Box<StatusQuery>,
    },
}

impl StatusQuery {
    /// Whom to ask.
    pub const fn provider(&self) -> Provider {
        match self {
            Self::Payment { provider, .. }
            | Self::Refund { provider, .. }
            | Self::Refunds { provider, .. }
            | Self::Disputes { provider, .. } => *provider,
            Self::Home { question, .. } => question.provider(),
        }
    }

    /// In which connected account; else in the configured key's own.
    pub fn account(&self) -> Option<&str> {
        match self {
            Self::Payment { account, .. }
            | Self::Refund { account, .. }
            | Self::Refunds { account, .. }
            | Self::Disputes { account, .. } => account.as_deref(),
            Self::Home { question, .. } => question.account(),
        }
    }
}

/// A refund in the provider's books.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RemoteRefund {
    /// The provider's id of it.
    pub id: String,
    /// In minor units.
    pub amount_minor: u64,
    /// How it stands.
    pub state: RefundState,
    /// The derived key of the call that made it, if it was made here.
    pub provider_key: Option<String>,
    /// Whether it may be what a capture of a part gave free of the reservation, not money.
    pub may_be_release: bool,
}

/// What the provider says of a payment beside how it stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Beside {
    /// Until when what is reserved can be captured, in ms since the epoch.
    pub capture_before_ms: Option<u64>,
    /// What is still reserved beside what was captured, in minor units.
    pub held_minor: u64,
    /// Whether a bank has ever disputed it.
    pub is_disputed: bool,
    /// With which card it was paid.
    pub card: Option<Card>,
    /// For how much it was made, in minor units.
    pub amount_minor: Option<u64>,
    /// In which currency, if it is one of ours.
    pub currency: Option<Currency>,
}

/// What the provider says.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum StatusReply {
    /// About the payment.
    Payment(RemoteState, Beside),
    /// About the refund: [`RefundState::Pending`], done, or failed.
    Refund(RefundState),
    /// A page of all refunds of the payment.
    Refunds {
        /// The newest first.
        refunds: Vec<RemoteRefund>,
        /// Whether older ones follow on another page.
        has_more: bool,
    },
    /// All disputes of the payment, the newest first.
    Disputes(Vec<Dispute>),
    /// About the account of the configured credential.
    Home(Identity),
    /// It could not say.
    NoAnswer,
}
