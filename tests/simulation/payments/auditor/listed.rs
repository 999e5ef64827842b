//! What the auditor is told.

use super::customers::CustomerView;
use crate::invariants::{Bytes, KeyView, Writer};

/// A payment as committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PaymentView {
    pub(crate) id: String,
    /// `authorizing`, `requires_action`, `processing`, `requires_capture`, `succeeded`, `capture_failed`,
    /// `canceled`, `expired`, `failed`
    pub(crate) state: &'static str,
    /// Amounts, here and below, are in thousandths of the currency's major unit.
    pub(crate) amount: u64,
    pub(crate) captured: u64,
    pub(crate) refunded_elsewhere: u64,
    pub(crate) attempt: u32,
    pub(crate) provider: &'static str,
    pub(crate) provider_payment: Option<String>,
    /// The tries that are over with money of which nobody has said that it was given back, by the provider's ids.
    pub(crate) late: Vec<String>,
    /// `capture`, `void`
    pub(crate) pending: Option<&'static str>,
    /// The provider has taken that over.
    pub(crate) is_received: bool,
    pub(crate) has_check: bool,
    /// Whether anything personal is kept of it, an address for receipts above all.
    pub(crate) is_personal: bool,
    /// Whether the provider's words about what has failed are kept, of the payment or of a refund.
    pub(crate) has_words: bool,
    /// `open`, `won`, `lost`
    pub(crate) dispute: Option<&'static str>,
    /// Whether the money is known to be withdrawn for it.
    pub(crate) is_withdrawn: bool,
}

/// A refund as committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RefundView {
    pub(crate) id: String,
    /// `requested`, `pending`, `succeeded`, `failed`
    pub(crate) state: &'static str,
    pub(crate) amount: u64,
    pub(crate) provider_refund: Option<String>,
}

/// A committed transaction of an object.
pub(crate) struct Commit {
    pub(crate) object: usize,
    pub(crate) now_ms: u64,
    pub(crate) writer: Writer,
    /// Whether any row changed or was added.
    pub(crate) changed: bool,
    pub(crate) keys: Vec<KeyView>,
    pub(crate) payment: Option<PaymentView>,
    pub(crate) customer: Option<CustomerView>,
    pub(crate) refunds: Vec<RefundView>,
    /// The keys that it finished, with what they do and answer.
    pub(crate) finished: Vec<(u32, &'static str, Bytes)>,
    /// The actions of the audit rows that it added.
    pub(crate) audit: Vec<&'static str>,
    /// The ids of the providers' events that it took in.
    pub(crate) events: Vec<String>,
    /// The ids of the jobs that it staged.
    pub(crate) jobs: Vec<String>,
    /// When the first job that is not over leaves, or leaves again.
    pub(crate) staged_until_ms: Option<u64>,
    /// For when the alarm is set now.
    pub(crate) alarm_at_ms: Option<u64>,
}

/// A request, as its client knows it.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) object: usize,
    /// What the client calls its key: two requests with the same name are one.
    pub(crate) key: String,
    /// Method, path and parameters.
    pub(crate) payload: String,
    pub(crate) stranger: bool,
}

/// A send, as it leaves.
pub(crate) struct Send {
    pub(crate) object: usize,
    pub(crate) key: u32,
    pub(crate) derived: String,
    /// The call within its operation: `capture`, `refund`
    pub(crate) name: String,
    pub(crate) bytes: String,
    pub(crate) number: u64,
    pub(crate) copies: u32,
    /// Whether it begins a payment.
    pub(crate) begins: bool,
    /// How long after the first send the provider may be sent to under the same key, whosever clock is right.
    pub(crate) window_ms: u64,
}

/// A payment in a provider's ledger.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) id: String,
    pub(crate) provider: &'static str,
    pub(crate) resource: String,
    pub(crate) by: String,
    /// `action`, `processing`, `reserved`, `captured`, `capture_failed`, `canceled`, `expired`, `refused`
    pub(crate) status: &'static str,
    pub(crate) amount: u64,
    pub(crate) captured: u64,
    /// What was captured last, also if that has failed since.
    pub(crate) taken: u64,
    /// By us.
    pub(crate) refunded: u64,
    pub(crate) refunded_elsewhere: u64,
    /// It was refused, and authorised after all: nobody has asked for that.
    pub(crate) is_revived: bool,
    /// Of its dispute: `open`, `won`, `lost`
    pub(crate) dispute: Option<&'static str>,
    /// Whether the money was withdrawn for it.
    pub(crate) is_withdrawn: bool,
    pub(crate) moved_by: Option<String>,
    /// Whether it was captured or canceled without us.
    pub(crate) moved_elsewhere: bool,
}

impl Entry {
    /// It is a charge, or can still become one.
    pub(super) fn lives(&self) -> bool {
        !self.is_revived && !matches!(self.status, "canceled" | "expired" | "refused")
    }
}

/// A refund in a provider's ledger.
#[derive(Clone, Debug)]
pub(crate) struct Returned {
    pub(crate) id: String,
    pub(crate) by: String,
    pub(crate) status: &'static str,
    pub(crate) amount: u64,
    /// Whether it has failed after it was done.
    pub(crate) came_back: bool,
}
