//! What stands in a bank's books.

/// A payment in a provider's books.
#[derive(Clone, Debug)]
pub(crate) struct Intent {
    pub(crate) id: String,
    pub(crate) number: u64,
    pub(crate) created_s: u64,
    /// The idempotency key that made it.
    pub(crate) by: String,
    /// Our id of what is paid.
    pub(crate) resource: String,
    pub(crate) amount: u64,
    pub(crate) currency: String,
    pub(crate) manual: bool,
    pub(crate) card: Card,
    pub(crate) status: Status,
    pub(crate) captured: u64,
    /// What was captured last, also if that has failed since.
    pub(crate) taken: u64,
    /// It was refused, and the issuer has authorised it after all.
    pub(crate) is_revived: bool,
    /// Its money was reserved or taken once.
    pub(crate) was_held: bool,
    /// The idempotency key that captured or canceled it.
    pub(crate) moved_by: Option<String>,
    /// Its answer was an error on the way to the issuer.
    pub(crate) has_erred: bool,
    /// It waits at a bank's page whose address nobody was told.
    pub(crate) has_no_page: bool,
    /// Lists do not show our metadata before.
    pub(crate) nameless_until_ms: u64,
    /// Lists do not show it at all before.
    pub(crate) listed_from_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Action,
    Processing,
    Reserved,
    Captured,
    /// It was captured, and that has failed days later.
    CaptureFailed,
    Canceled,
    Expired,
    Refused,
}

impl Status {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Action => "action",
            Self::Processing => "processing",
            Self::Reserved => "reserved",
            Self::Captured => "captured",
            Self::CaptureFailed => "capture_failed",
            Self::Canceled => "canceled",
            Self::Expired => "expired",
            Self::Refused => "refused",
        }
    }
}

/// A refund in a provider's books.
#[derive(Clone, Debug)]
pub(crate) struct Refund {
    pub(crate) id: String,
    pub(crate) number: u64,
    pub(crate) intent: String,
    pub(crate) amount: u64,
    /// The idempotency key that made it.
    pub(crate) by: String,
    /// `pending`, `succeeded`, `failed`
    pub(crate) status: &'static str,
    /// Whether it has failed after it was done.
    pub(crate) came_back: bool,
    /// Lists do not show our metadata before.
    pub(crate) nameless_until_ms: u64,
}

/// A dispute in Stripe's books: of a payment there is at most one.
#[derive(Clone, Debug)]
pub(crate) struct Dispute {
    pub(crate) id: String,
    pub(crate) intent: String,
    pub(crate) amount: u64,
    /// `warning_needs_response`, `warning_closed`, `needs_response`, `won`, `lost`
    pub(crate) status: &'static str,
}

impl Dispute {
    /// Whether the money is the merchant's, or may still be given back by a refund.
    pub(crate) fn permits_refunds(&self) -> bool {
        matches!(self.status, "warning_needs_response" | "warning_closed" | "won")
    }

    pub(crate) fn is_withdrawn(&self) -> bool {
        matches!(self.status, "needs_response" | "lost")
    }

    /// As the product calls it.
    pub(crate) fn stands(&self) -> &'static str {
        match self.status {
            "won" | "warning_closed" => "won",
            "lost" => "lost",
            _ => "open",
        }
    }
}

/// How a card behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Card {
    Good,
    Declined,
    /// Wants the bank's page; is declined where nobody can go there.
    Page,
    /// Decided hours later.
    Slow,
    /// Its refunds stay pending for hours.
    PendingRefund,
    /// Its refunds stay pending for hours, and fail.
    FailingRefund,
}
