//! Pages of Stripe's lists. <https://docs.stripe.com/api/pagination>

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

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

/// An entry that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unread {
    /// Stripe's id of it.
    pub id: String,
    /// Why.
    pub why: String,
}

/// Of how many entries a list goes on without having read them.
pub(super) const UNREAD_MAX: usize = 10;

/// What of a page can be read.
pub(super) struct Each<T> {
    pub(super) read: Vec<T>,
    pub(super) unread: Vec<Unread>,
    pub(super) end: PageEnd,
}

/// Reads a page entry by entry: one that cannot be read holds up no other. Without its id nobody could ask for it: then the page cannot be read. So it is
/// where more than a few cannot be: something is wrong with all then, and the list stays where it is.
pub(super) fn each<T: DeserializeOwned>(body: &str) -> Result<Each<T>, String> {
    #[derive(Deserialize)]
    struct List {
        data: Vec<Value>,
        has_more: bool,
    }
    #[derive(Deserialize)]
    struct Known {
        id: String,
        created: Option<u64>,
    }
    let list: List = serde_json::from_str(body).map_err(|error| error.to_string())?;
    let (mut read, mut unread, mut last) = (Vec::new(), Vec::new(), None);
    for entry in list.data {
        let Known { id, created } = Known::deserialize(&entry).map_err(|error| error.to_string())?;
        match serde_json::from_value(entry) {
            Ok(entry) => read.push(entry),
            Err(error) => unread.push(Unread { id: id.clone(), why: error.to_string() }),
        }
        last = Some((id, created));
    }
    if let Some(Unread { id, why }) = unread.get(UNREAD_MAX) {
        return Err(format!("{} entries of a page cannot be read, as {id}: {why}", unread.len()));
    }
    let last = last.as_ref().map(|(id, created)| (id.as_str(), *created));
    Ok(Each { read, unread, end: PageEnd::new(last, list.has_more) })
}

/// The path of one entry of a list. Nothing that an id may not have gets into it.
pub(super) fn entry_path(list: &str, id: &str) -> String {
    let id: String = id.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
    format!("{list}/{id}")
}
