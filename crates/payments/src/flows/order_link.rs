//! The links to an order: the newest one wins, and all of them can be ended.
//!
//! A link is the order itself, signed, and the order's object keeps nothing of it but the revision of the newest one. That is
//! enough to refuse an older price, wherever its link lies open; a payment that is under way keeps running all the same.

use serde::{Deserialize, Serialize};

use super::Refusal;
use crate::flows::engine::Rows;
use crate::payment::{Payment, PaymentState};

/// The highest revision that a shop may give.
pub const REVISION_MAX: u32 = 1_000_000_000;

/// What an object knows of its order's links.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct OrderLinks {
    /// The newest link's. Links that were made before there were revisions, and those of the demo's own orders, have 0.
    pub revision: u32,
    /// A digest of what the newest link sells.
    pub content: String,
    /// Links up to this revision cannot be paid any more: the shop has ended them.
    pub ended_through: Option<u32>,
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MadeLink {
    /// It is the newest one, under this revision.
    Revision(u32),
    /// Its revision is taken, or a newer one is there: this one.
    Conflict(u32),
}

/// Notes that a link is made. Without a revision of the shop's own the links of an order are numbered here: the same content has
/// the same number, so that asking twice replaces nothing, and other content the next one.
pub fn make(rows: &mut Rows, asked: Option<u32>, content: &str) -> MadeLink {
    let Some(links) = &rows.resource.links else {
        let revision = asked.unwrap_or(1);
        rows.resource.links = Some(OrderLinks { revision, content: content.to_owned(), ended_through: None });
        return MadeLink::Revision(revision);
    };
    let newest = links.revision;
    let is_the_newest = links.content == content && state(Some(links), newest) == LinkState::Live;
    match asked {
        None if is_the_newest => return MadeLink::Revision(newest),
        Some(asked) if asked == newest && is_the_newest => return MadeLink::Revision(newest),
        Some(asked) if asked <= newest => return MadeLink::Conflict(newest),
        Some(_) | None => {}
    }
    let revision = asked.unwrap_or(newest.saturating_add(1));
    let ended_through = links.ended_through;
    rows.resource.links = Some(OrderLinks { revision, content: content.to_owned(), ended_through });
    MadeLink::Revision(revision)
}

/// What comes of ending all links of an order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndedLinks {
    /// None of those that were made so far can be paid: up to this revision.
    Through(u32),
    /// The order is paid: the payment's status.
    Paid(String),
}

/// Ends all links that were made so far, also where none is known: there may be one of before. A payment that is under way keeps
/// running.
pub fn end(rows: &mut Rows) -> EndedLinks {
    let paid =
        rows.resource.payment.as_ref().filter(|payment| {
            matches!(payment.state, PaymentState::Captured { .. } | PaymentState::Authorized)
        });
    if let Some(payment) = paid {
        return EndedLinks::Paid(payment.status().to_owned());
    }
    let links = rows.resource.links.get_or_insert_with(|| OrderLinks {
        revision: 0,
        content: String::new(),
        ended_through: None,
    });
    links.ended_through = Some(links.revision);
    EndedLinks::Through(links.revision)
}

/// Why an order cannot be paid through this link, or a payment not be given up through it. What is not done through a link is
/// the shop's own doing.
pub(super) fn refusal(links: Option<&OrderLinks>, revision: Option<u32>) -> Option<Refusal> {
    match state(links, revision?) {
        LinkState::Live => None,
        LinkState::Replaced => Some(Refusal::LinkReplaced),
        LinkState::Ended => Some(Refusal::LinkEnded),
    }
}
