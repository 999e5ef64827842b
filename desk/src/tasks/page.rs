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

impl PageEnd {
    /// Of a page whose last entry has this id and time.
    pub fn new(last: Option<(&str, Option<u64>)>, has_more: bool) -> Self {
        let created_s = last.and_then(|(_, created_s)| created_s);
        Self { last: last.map(|(id, _)| id.to_owned()), created_s, has_more }
    }
}

/// The path of one entry of a list. Nothing that an id may not have gets into it.
pub(super) fn entry_path(list: &str, id: &str) -> String {
    let id: String = id.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
    format!("{list}/{id}")
}
