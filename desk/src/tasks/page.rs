//! Pages of Stripe's lists. <https://docs.stripe.com/api/pagination>

/// Entries per page: Stripe's maximum.
pub const PAGE_SIZE: u32 = 100;

/// Where a page ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageEnd {
    /// The id of its last entry.
    pub last: Option<String>,
    /// When that was created, in seconds since the epoch.
    pub created_s: Option<u64>,
    /// Whether older ones follow.
    pub has_more: bool,
}
