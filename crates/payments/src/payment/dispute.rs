//! What a bank wants back of a payment.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// A bank wants money back.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Dispute {
    /// The provider's id of it.
    pub id: String,
    /// How much, in minor units.
    pub amount_minor: u64,
    /// How it stands.
    pub status: DisputeStatus,
    /// Whether the money is gone from the merchant's balance.
    pub withdrawn: bool,
    /// Whether the money can be given back all the same: the bank only asks.
    #[serde(default)]
    pub refundable: bool,
    /// When that was, by the provider's clock, in ms since the epoch.
    #[serde(default)]
    pub at_ms: Option<u64>,
    /// Whether it began as an inquiry, whose time to answer is not that to defend a chargeback.
    #[serde(default)]
    pub began_as_inquiry: bool,
    /// When its time to defend was over, and nobody had, in ms since the epoch by the provider's clock: what is taken of it is lost.
    #[serde(default)]
    pub undefended_at_ms: Option<u64>,
}

impl Dispute {
    /// The one dispute as which all of a payment are shown: the newest that is open, else that was lost. What is open or lost is summed up.
    pub fn of_all(disputes: &[Self]) -> Option<Self> {
        let of = |status| disputes.iter().filter(move |dispute| dispute.status == status);
        let first =
            of(DisputeStatus::Open).chain(of(DisputeStatus::Lost)).chain(of(DisputeStatus::Won)).next()?;
        if first.status == DisputeStatus::Won {
            return Some(first.clone());
        }
        let counting = || disputes.iter().filter(|dispute| dispute.status != DisputeStatus::Won);
        Some(Self {
            amount_minor: counting().fold(0, |sum, dispute| sum.saturating_add(dispute.amount_minor)),
            withdrawn: counting().any(|dispute| dispute.withdrawn),
            refundable: counting().all(|dispute| dispute.refundable),
            ..first.clone()
        })
    }

    /// Whether the bank may keep of it what it has taken, or take it yet: not of one that is won, nor where it only asks. (Releases before called one
    /// refundable of which something was withdrawn.)
    pub fn is_claim(&self) -> bool {
        let only_asks = self.refundable && !self.withdrawn;
        self.status != DisputeStatus::Won && !only_asks
    }

    /// As the API shows it.
    pub fn to_json(&self) -> Value {
        json!({
            "id": self.id, "status": self.status.as_str(), "amount": self.amount_minor,
            "funds_withdrawn": self.withdrawn,
        })
    }
}

/// How a dispute stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DisputeStatus {
    /// Not decided.
    Open,
    /// For the merchant.
    Won,
    /// For the card holder.
    Lost,
}

impl DisputeStatus {
    /// As it is written.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Won => "won",
            Self::Lost => "lost",
        }
    }
}
