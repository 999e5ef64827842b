//! The links to an order: the newest one wins, and all of them can be ended.
//!
//! A link is the order itself, signed, and the order's object keeps nothing of it but the revision of the newest one. That is
//! enough to refuse an older price, wherever its link lies open; a payment that is under way keeps running all the same.

use serde::{Deserialize, Serialize};

use crate::payment::Payment;
use once::key::KeyHash;

/// The highest revision that a shop may give.
pub const REVISION_MAX: u32 = 1_000_000_000;

/// What an object knows of its order's links.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct OrderLinks {
    /// The newest link's. Links that were made before there were revisions, and those of the demo's own orders, have 0.
    pub revision: u32,
    /// A digest of what the newest link sells.
    pub content: String,
    /// Links up to this revision cannot be paid any more: the shop has ended them.
    pub ended_through: Option<u32>,
    /// Under which keys links were asked for, the newest last: at most [`KEYS_MAX`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<KeyOfLink>,
}

/// How many keys an order's links remember.
pub const KEYS_MAX: usize = 20;

/// What [`KeyOfLink::asked`] says of a key under which the links of an order were ended. No link's content is that.
pub const ENDED: &str = "end";

/// A key under which a link was asked for, or all of them were ended: the same request once more gets the same answer, also where a newer link
/// was made since.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct KeyOfLink {
    /// Of the key.
    pub hash: KeyHash,
    /// What the link sells, and the revision that was asked for; or [`ENDED`].
    pub asked: String,
    /// The link's, or the newest one that was ended.
    pub revision: u32,
}

/// Whether an order can be paid through a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LinkState {
    /// It is the newest one.
    Live,
    /// A newer one was made.
    Replaced,
    /// The shop has ended it.
    Ended,
}

/// How a link stands.
pub fn state(links: Option<&OrderLinks>, revision: u32) -> LinkState {
    match links {
        Some(links) if revision < links.revision => LinkState::Replaced,
        Some(links) if links.ended_through.is_some_and(|ended| revision <= ended) => LinkState::Ended,
        _ => LinkState::Live,
    }
}

/// Whether a payment was made through this link. One of before there were revisions says nothing of it.
pub fn is_through(payment: &Payment, revision: u32) -> bool {
    payment.link_revision.unwrap_or(0) == revision
}

/// What comes of the wish for a link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MadeLink {
    /// It is the newest one, under this revision.
    Revision(u32),
    /// Its revision is taken, or a newer one is there: this one.
    Conflict(u32),
    /// The order is paid, as an earlier link has it: the payment's status.
    Paid(String),
    /// Its key stands for another link.
    KeyReused,
    /// The account has made too many first links of orders: nothing was written.
    RateLimited,
}

/// What comes of ending all links of an order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndedLinks {
    /// None of those that were made so far can be paid: up to this revision.
    Through(u32),
    /// The order is paid: the payment's status.
    Paid(String),
    /// The key is that of another request.
    KeyReused,
}
