//! Making the links to an order, and ending them.

use crate::engine::ObjectState;
use crate::payment::operation::Refusal;
use crate::payment::order_link::{
    ENDED, EndedLinks, KEYS_MAX, KeyOfLink, LinkState, MadeLink, OrderLinks, REVISION_MAX, state,
};
use crate::payment::{InFlight, PaymentState};
use once::key::KeyHash;

/// Notes that a link is made. Under a key that has made one it is that one, whatever was made since. Without a revision of the shop's own the
/// links of an order are numbered here: the same content has the same number, so that asking twice replaces nothing, and other content the
/// next one.
pub fn make(
    object_state: &mut ObjectState,
    revision: Option<u32>,
    content: &str,
    key: Option<KeyHash>,
) -> MadeLink {
    let asked = revision.map_or_else(|| content.to_owned(), |revision| format!("{revision} {content}"));
    match known(object_state, key.as_ref()) {
        Some(known) if known.asked == asked => return MadeLink::Revision(known.revision),
        Some(_) => return MadeLink::KeyReused,
        None => {}
    }
    let made = newest(object_state, revision, content);
    if let (MadeLink::Revision(revision), Some(hash), Some(links)) =
        (&made, key, &mut object_state.resource.links)
    {
        keep(links, KeyOfLink { hash, asked, revision: *revision });
    }
    made
}

/// What was asked for under the key.
fn known<'s>(object_state: &'s ObjectState, key: Option<&KeyHash>) -> Option<&'s KeyOfLink> {
    object_state.resource.links.as_ref()?.keys.iter().find(|known| Some(&known.hash) == key)
}

fn keep(links: &mut OrderLinks, key: KeyOfLink) {
    let over = (links.keys.len() + 1).saturating_sub(KEYS_MAX);
    links.keys.drain(..over);
    links.keys.push(key);
}

/// The status of the payment, if the order is paid.
fn paid(object_state: &ObjectState) -> Option<String> {
    let payment = object_state.resource.payment.as_ref().filter(|payment| payment.is_paid())?;
    Some(payment.status().to_owned())
}

/// Whether what is paid is only held, and not being taken: to give the order up the shop ends its links, and then voids the payment, so that nobody can
/// place it again in between.
fn is_only_reserved(object_state: &ObjectState) -> bool {
    let payment = object_state.resource.payment.as_ref();
    payment.is_some_and(|payment| {
        matches!(payment.state, PaymentState::Authorized)
            && !matches!(payment.pending, Some(InFlight::Capture { .. }))
    })
}

/// The newest link: of this content, or already there. What is paid is what its link said, and stays so.
fn newest(object_state: &mut ObjectState, asked: Option<u32>, content: &str) -> MadeLink {
    let links = object_state.resource.links.as_ref();
    let is_the_newest = |links: &OrderLinks| {
        links.content == content && state(Some(links), links.revision) == LinkState::Live
    };
    if let Some(known) = links.filter(|links| is_the_newest(links))
        && asked.is_none_or(|asked| asked == known.revision)
    {
        return MadeLink::Revision(known.revision);
    }
    if let Some(status) = paid(object_state) {
        return MadeLink::Paid(status);
    }
    let Some(links) = &mut object_state.resource.links else {
        let revision = asked.unwrap_or(1);
        let links = OrderLinks { revision, content: content.to_owned(), ..OrderLinks::default() };
        object_state.resource.links = Some(links);
        return MadeLink::Revision(revision);
    };
    let newest = links.revision;
    match asked {
        Some(asked) if asked <= newest => return MadeLink::Conflict(newest),
        // No link is newer than that.
        None if newest >= REVISION_MAX => return MadeLink::Conflict(newest),
        Some(_) | None => {}
    }
    links.revision = asked.unwrap_or(newest.saturating_add(1));
    content.clone_into(&mut links.content);
    MadeLink::Revision(links.revision)
}

/// Ends all links that were made so far, also where none is known: there may be one of before. A payment that is under way keeps
/// running, and one that is only authorized stays so. Under a key that has ended some it is those, and none that was made since.
pub fn end(object_state: &mut ObjectState, key: Option<KeyHash>) -> EndedLinks {
    match known(object_state, key.as_ref()) {
        Some(known) if known.asked == ENDED => return EndedLinks::Through(known.revision),
        Some(_) => return EndedLinks::KeyReused,
        None => {}
    }
    if let Some(status) = paid(object_state).filter(|_| !is_only_reserved(object_state)) {
        return EndedLinks::Paid(status);
    }
    let links = object_state.resource.links.get_or_insert_default();
    let revision = links.revision;
    links.ended_through = Some(revision);
    if let Some(hash) = key {
        keep(links, KeyOfLink { hash, asked: ENDED.to_owned(), revision });
    }
    EndedLinks::Through(revision)
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
