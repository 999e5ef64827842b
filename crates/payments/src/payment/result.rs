//! What a call does at a provider, and what a definitive answer means.

use crate::payment::card::Card;
use once::domain::Answer;
use serde::{Deserialize, Serialize};

/// What a call does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallKind {
    /// Begins a payment, to be captured at once or later; the bank's page may come in between. Releases before had a charge, too, for
    /// rides.
    #[serde(alias = "charge")]
    Authorize,
    /// Takes what was reserved, or a part of it.
    Capture,
    /// Gives up what was reserved.
    Void,
    /// Gives money back.
    Refund,
    /// Makes a customer.
    CreateCustomer,
    /// Changes a customer.
    UpdateCustomer,
}

impl CallKind {
    /// The name as stored.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Authorize => "authorize",
            Self::Capture => "capture",
            Self::Void => "void",
            Self::Refund => "refund",
            Self::CreateCustomer => "create_customer",
            Self::UpdateCustomer => "update_customer",
        }
    }

    /// The operation that makes such a call.
    pub const fn operation(self) -> &'static str {
        match self {
            Self::Authorize => "payment",
            Self::Capture => "capture",
            Self::Void => "void",
            Self::Refund => "refund",
            Self::CreateCustomer | Self::UpdateCustomer => "customer",
        }
    }

    /// From the stored name.
    pub fn parse(text: &str) -> Option<Self> {
        let all = [
            Self::Authorize,
            Self::Capture,
            Self::Void,
            Self::Refund,
            Self::CreateCustomer,
            Self::UpdateCustomer,
        ];
        all.into_iter().find(|kind| kind.as_str() == text)
    }
}

/// What a definitive answer means.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum ProviderResult {
    /// The money was taken.
    Charged {
        /// The provider's id of the payment.
        payment: String,
        /// With which card, until the payment has it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        card: Option<Card>,
    },
    /// The money is reserved, to be captured.
    Authorized {
        /// The provider's id of the payment.
        payment: String,
        /// Until when it can be captured, in ms since the epoch, if the provider has said so.
        #[serde(default)]
        capture_before_ms: Option<u64>,
        /// With which card, until the payment has it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        card: Option<Card>,
    },
    /// The money was reserved, and has been captured or given up since, though not by us.
    Moved {
        /// The provider's id of the payment.
        payment: String,
        /// What it is now.
        found: RemoteState,
    },
    /// The person who pays must go to the bank's page first.
    RequiresAction {
        /// The provider's id of the payment.
        payment: String,
        /// The bank's page.
        url: String,
    },
    /// The provider has it and decides later.
    Processing {
        /// The provider's id of the payment.
        payment: String,
    },
    /// What was reserved, or a part of it, was taken.
    Captured {
        /// How much, in minor units.
        amount_minor: u64,
    },
    /// What was reserved is given up.
    Voided,
    /// The provider has taken a capture or a void over, and tells later how it ended.
    Received {
        /// The provider's id of the modification.
        modification: String,
    },
    /// Money is given back.
    Refunded {
        /// The provider's id of the refund.
        refund: String,
        /// It is done; else the provider has it and decides later.
        settled: bool,
    },
    /// The customer is as it was asked for.
    Customer {
        /// The provider's id of it.
        customer: String,
    },
    /// The card was declined; nothing was taken.
    Declined {
        /// The provider's id of the payment, which persists.
        payment: Option<String>,
        /// The provider's code, such as `card_declined`.
        code: String,
        /// The issuer's code, such as `insufficient_funds`.
        decline_code: Option<String>,
        /// For the person who pays.
        message: String,
    },
    /// The provider refuses the request itself; it moved nothing.
    Rejected {
        /// The provider's id of the payment, if it made one.
        #[serde(default)]
        payment: Option<String>,
        /// The provider's code.
        code: String,
        /// For the developer.
        message: String,
        /// What the provider says that the payment is, if it says so with the refusal.
        #[serde(default)]
        found: Option<RemoteState>,
    },
}

impl ProviderResult {
    /// The provider's id of the payment, as far as the answer says one.
    pub fn payment(&self) -> Option<&str> {
        match self {
            Self::Charged { payment, .. }
            | Self::Authorized { payment, .. }
            | Self::Moved { payment, .. }
            | Self::RequiresAction { payment, .. }
            | Self::Processing { payment } => Some(payment),
            Self::Declined { payment, .. } | Self::Rejected { payment, .. } => payment.as_deref(),
            Self::Captured { .. }
            | Self::Voided
            | Self::Received { .. }
            | Self::Refunded { .. }
            | Self::Customer { .. } => None,
        }
    }

    /// The bank's page, which the answer does not keep: its address holds the client secret, and goes with the payment's state.
    pub fn forget_bank_page(&mut self) {
        if let Self::RequiresAction { url, .. } = self {
            url.clear();
        }
    }

    /// The card that paid, which the answer does not keep: a payment alone has it.
    pub const fn take_card(&mut self) -> Option<Card> {
        match self {
            Self::Charged { card, .. } | Self::Authorized { card, .. } => card.take(),
            _ => None,
        }
    }

    /// Whether it shows that the call was executed and did what was asked.
    pub const fn is_done(&self) -> bool {
        !matches!(self, Self::Declined { .. } | Self::Rejected { .. })
    }

    /// One word for it.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Charged { .. } => "charged",
            Self::Authorized { .. } => "authorized",
            Self::Moved { .. } => "moved",
            Self::RequiresAction { .. } => "requires_action",
            Self::Processing { .. } => "processing",
            Self::Captured { .. } => "captured",
            Self::Voided => "voided",
            Self::Received { .. } => "received",
            Self::Refunded { .. } => "refunded",
            Self::Customer { .. } => "customer",
            Self::Declined { .. } => "declined",
            Self::Rejected { .. } => "rejected",
        }
    }

    /// Whether money was taken.
    pub const fn took_money(&self) -> bool {
        matches!(
            self,
            Self::Charged { .. }
                | Self::Captured { .. }
                | Self::Moved { found: RemoteState::Captured { .. }, .. }
        )
    }
}

/// What the provider says that a payment is now.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "found")]
pub enum RemoteState {
    /// Reserved, to be captured.
    Authorized,
    /// Taken.
    Captured {
        /// How much, in minor units.
        amount_minor: u64,
    },
    /// Given up.
    Voided,
    /// What was reserved has lapsed.
    Expired,
    /// Waiting for the person who pays.
    RequiresAction {
        /// The bank's page.
        url: String,
    },
    /// Not decided yet.
    Processing,
    /// Nothing was taken.
    Failed(Failure),
}

impl RemoteState {
    /// Drops what the provider says in its own words, and the address of the bank's page.
    pub(crate) fn forget_text(&mut self) {
        match self {
            Self::RequiresAction { url } => url.clear(),
            Self::Failed(failure) => failure.message.clear(),
            Self::Authorized | Self::Captured { .. } | Self::Voided | Self::Expired | Self::Processing => {}
        }
    }
}

/// Why nothing was taken.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Failure {
    /// The card or the bank said no; else the provider refused the request, or it never got there.
    pub declined: bool,
    /// `card_declined`, `provider_rejected`, …
    pub code: String,
    /// The issuer's code, such as `insufficient_funds`.
    pub decline_code: Option<String>,
    /// For the person who pays.
    pub message: String,
}

impl Answer for ProviderResult {
    fn name(&self) -> &'static str {
        self.name()
    }

    fn is_refusal(&self) -> bool {
        matches!(self, Self::Rejected { .. })
    }

    fn made(&self) -> Option<&str> {
        match self {
            Self::Customer { customer } => Some(customer),
            _ => self.payment(),
        }
    }

    /// Stripe's "Invalid email address: …", say; and the bank's page, whose address holds the client secret.
    fn forget_text(&mut self) {
        match self {
            Self::Declined { message, .. } => message.clear(),
            Self::Rejected { message, found, .. } => {
                message.clear();
                found.iter_mut().for_each(RemoteState::forget_text);
            }
            Self::Moved { found, .. } => found.forget_text(),
            Self::RequiresAction { url, .. } => url.clear(),
            Self::Charged { .. }
            | Self::Authorized { .. }
            | Self::Processing { .. }
            | Self::Captured { .. }
            | Self::Voided
            | Self::Received { .. }
            | Self::Refunded { .. }
            | Self::Customer { .. } => {}
        }
    }
}
