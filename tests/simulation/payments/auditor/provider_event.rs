//! What the providers tell by themselves: each event once, and all of them enough.

use super::{AGREES, Auditor, Commit, Entry, RefundView, Returned, Seen};

pub(crate) const TAKEN_ONCE: &str = "22: an event is taken in once";
pub(crate) const BELIEVED: &str = "22: what an honest provider tells fits what is known";
pub(crate) const GIVEN_BACK: &str = "23: money on a try that was over is given back";
pub(crate) const HEARD: &str = "22: what was told of settles what waited for it";

impl Auditor {
    pub(super) fn judge_events(&mut self, commit: &Commit) {
        for event in &commit.events {
            if !self.events.insert((commit.object, event.clone())) {
                self.violated(TAKEN_ONCE, format!("{event} in object {}", commit.object));
            }
        }
    }

    /// An object takes what a provider tells for something that cannot be. The providers here are honest.
    pub(crate) fn contradicted(&mut self, seen: String) {
        self.violated(BELIEVED, seen);
    }

    /// All that there is to tell to an object was told.
    pub(crate) fn heard_all(&mut self, object: usize) {
        self.heard_all.insert(object);
    }

    /// At rest, all events delivered or at a provider that is asked: nothing is held or taken that was refused before, or a person
    /// is told.
    pub(super) fn judge_given_back(&mut self, object: usize, seen: &Seen, hears: bool) {
        let Some(payment) = &seen.payment else { return };
        let is_paid_so = |entry: &Entry| {
            let is_it = payment.provider_payment.as_ref() == Some(&entry.id);
            is_it && !matches!(payment.state, "failed" | "canceled" | "expired")
        };
        // What comes back is asked for a few times, and may come back after the last one.
        let is_back =
            |it: &Returned| it.came_back && it.by.starts_with(&format!("{}_give_back_", payment.id));
        let came_back = self.returned.values().any(is_back);
        let is_left = |entry: &&Entry| {
            entry.resource == payment.id
                && entry.is_revived
                && (hears || (entry.provider == "stripe" && !came_back))
                && !is_paid_so(entry)
                && (entry.status == "reserved" || entry.captured > entry.refunded + entry.refunded_elsewhere)
        };
        let is_told = self.left_to_a_person.contains(&object) || seen.keys.iter().any(|key| key.needs_person);
        if let Some(entry) = self.ledger.values().find(is_left).filter(|_| !is_told) {
            self.violated(GIVEN_BACK, format!("{entry:?} beside {payment:?}"));
        }
    }

    pub(super) fn came_back(&self, refund: &RefundView) -> bool {
        let id = refund.provider_refund.as_ref();
        id.and_then(|id| self.returned.get(id)).is_some_and(|returned| returned.came_back)
    }

    /// At rest, all events delivered: a key waits for a person only if the books have nothing of it, and each refund stands as
    /// in the books.
    pub(super) fn judge_heard(&mut self, object: usize, seen: &Seen) {
        for key in seen.keys.iter().filter(|key| key.life == "open" && key.needs_person) {
            let is_its =
                |by: &String| self.derived.get(by).is_some_and(|it| (it.object, it.key) == (object, key.key));
            let moved = |entry: &Entry| is_its(&entry.by) || entry.moved_by.as_ref().is_some_and(is_its);
            // An earlier try may have been with the other one, which answers questions.
            let is_returned = || self.returned.values().any(|returned| is_its(&returned.by));
            let in_books = (self.refunds_are_named && is_returned())
                || self.ledger.values().any(|entry| entry.provider == "adyen" && moved(entry));
            if in_books {
                self.violated(HEARD, format!("open although the books have it: {key:?}"));
            }
        }
        for refund in &seen.refunds {
            let Some(id) = &refund.provider_refund else { continue };
            let books = self.returned.get(id).map(|returned| returned.status);
            if books != Some(refund.state) {
                self.violated(AGREES, format!("{refund:?} is {books:?} in the books"));
            }
        }
    }
}
