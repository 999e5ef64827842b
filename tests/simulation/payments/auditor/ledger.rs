//! What is sent to the providers, and what their ledgers then show.

use super::{Auditor, Derived, Entry, MOVES, ONE_TRY, Returned, SUMS, Seen, Send, sum};
use crate::invariants::{FROZEN, ONE_CHARGE, Sends, TOMBSTONE, TRUE_VERDICT};

impl Auditor {
    /// A send begins.
    pub(crate) fn sent(&mut self, now_ms: u64, send: &Send) {
        let resource = self
            .objects
            .get(&send.object)
            .and_then(|seen| seen.payment.as_ref())
            .map(|payment| payment.id.clone())
            .unwrap_or_default();
        let derived = self.derived.entry(send.derived.clone()).or_insert_with(|| Derived {
            object: send.object,
            key: send.key,
            begins: send.begins,
            resource: resource.clone(),
            sends: Sends::new(&send.derived, &send.bytes),
        });
        let is_first = derived.sends.is_empty();
        let is_anothers = (derived.object, derived.key) != (send.object, send.key);
        let sent = derived.sends.sent(now_ms, &send.bytes, (send.number, send.copies), send.window_ms);
        self.violations.extend(sent);
        if is_anothers {
            self.violated(FROZEN, format!("two keys send under {}", send.derived));
        }
        let seen = self.objects.get(&send.object);
        let ended = seen.is_some_and(|seen| seen.keys.iter().any(|k| k.key == send.key && k.life != "open"));
        if ended {
            self.violated(TOMBSTONE, "a send for a key that has ended");
        }
        if is_first {
            self.judge_first_send(send);
        }
        if send.begins && is_first {
            self.judge_try(&send.derived, &resource);
        }
    }

    /// What is sent for the first time was admitted for the payment as it is now.
    fn judge_first_send(&mut self, send: &Send) {
        let payment = self.objects.get(&send.object).and_then(|seen| seen.payment.as_ref());
        let Some(state) = payment.map(|payment| payment.state) else { return };
        let fits = match send.name.as_str() {
            "capture" => state == "requires_capture",
            "refund" => state == "succeeded",
            _ => true,
        };
        if !fits {
            self.violated(MOVES, format!("a {} is sent for what is {state}", send.name));
        }
    }

    /// Another try: nothing of the earlier ones may still become a charge.
    fn judge_try(&mut self, derived: &str, resource: &str) {
        let living = self.ledger.values().find(|entry| entry.resource == resource && entry.lives());
        // Nobody has asked for it: but it is known, and charging beside it would be paying twice.
        let known = self.objects.values().filter_map(|seen| seen.payment.as_ref());
        let late = known.filter(|payment| payment.id == resource).flat_map(|payment| &payment.late);
        let is_left = |entry: &&Entry| entry.status == "reserved" || entry.captured > entry.refunded;
        let beside = late.filter_map(|id| self.ledger.get(id)).find(is_left);
        let on_way = self.derived.iter().find(|(name, other)| {
            let is_other = *name != derived && other.begins && other.resource == resource;
            is_other && other.sends.may_still_be_executed()
        });
        let seen = match (living.or(beside), on_way) {
            (Some(entry), _) => format!("{derived} begins beside {entry:?}"),
            (None, Some((name, _))) => format!("{derived} begins while {name} is under way"),
            (None, None) => return,
        };
        self.violated(ONE_TRY, seen);
    }

    /// A copy of a send has been answered, or has been executed.
    pub(crate) fn dealt_with(&mut self, derived: &str) {
        if let Some(derived) = self.derived.get_mut(derived) {
            derived.sends.dealt_with();
        }
    }

    /// The sender was told by the provider that it did not execute a send.
    pub(crate) fn refused(&mut self, number: u64) {
        self.derived.values_mut().for_each(|derived| derived.sends.refused(number));
    }

    /// The same of all copies of a send, and maybe of all that had arrived before it.
    pub(crate) fn refused_for_certain(&mut self, number: u64, arrives_within_ms: Option<u64>) {
        let all = self.derived.values_mut();
        all.for_each(|derived| derived.sends.refused_for_certain(number, arrives_within_ms));
    }

    /// Whether all that was heard about a call says that nothing was executed: it waits for nobody. Its object may know of a send that has never left it:
    /// then it is in doubt.
    pub(crate) fn is_refused_for_certain(&self, derived: &str, sends: u32) -> bool {
        self.derived.get(derived).is_some_and(|derived| derived.sends.are_refused_for_certain(sends))
    }

    /// The provider executed what a key asks for.
    pub(crate) fn executed(&mut self, now_ms: u64, derived: &str) {
        if let Some(derived) = self.derived.get_mut(derived) {
            derived.sends.executed(now_ms);
        }
    }

    /// Whether one operation has begun both payments.
    pub(crate) fn is_of_the_same_key(&self, one: &str, other: &str) -> bool {
        let of = |by: &str| self.derived.get(by).map(|derived| (derived.object, derived.key));
        of(one).is_some() && of(one) == of(other)
    }

    pub(super) fn told_nothing(&self, by: &str) -> bool {
        let told = |derived: &Derived| self.moved_nothing.contains(&(derived.object, derived.key));
        self.derived.get(by).is_some_and(told)
    }

    /// A provider's ledger changed.
    pub(crate) fn booked(&mut self, entry: Entry) {
        if entry.captured > entry.amount || entry.refunded + entry.refunded_elsewhere > entry.captured {
            self.violated(SUMS, format!("in the ledger: {entry:?}"));
        }
        let before = self.ledger.insert(entry.id.clone(), entry.clone());
        let was_moved = before.as_ref().is_some_and(|before| before.moved_by.is_some());
        if before.is_none() && entry.lives() && self.told_nothing(&entry.by) {
            self.violated(TRUE_VERDICT, format!("after the verdict that nothing moved: {entry:?}"));
        }
        if !was_moved && entry.moved_by.as_ref().is_some_and(|by| self.told_nothing(by)) {
            self.violated(TRUE_VERDICT, format!("after the verdict that nothing moved: {entry:?}"));
        }
        // By what is paid: the payment, or the order.
        let paid = |entry: &Entry| {
            let derived = self.derived.get(&entry.by);
            let order = derived.and_then(|derived| self.orders.get(&derived.object));
            order.cloned().unwrap_or_else(|| entry.resource.clone())
        };
        let what = paid(&entry);
        let of_it = |other: &&Entry| paid(other) == what;
        let living = self.ledger.values().filter(of_it).filter(|other| other.lives()).count();
        let charged = self
            .ledger
            .values()
            .filter(of_it)
            .filter(|other| other.captured > 0 && !other.is_revived)
            .count();
        if living > 1 || charged > 1 {
            self.violated(ONE_CHARGE, format!("{charged} charges and {living} that live for {what}"));
        }
        // By the client's key, across objects.
        let name = |by: &String| {
            let derived = self.derived.get(by)?;
            self.objects.get(&derived.object)?.names.get(&derived.key).cloned()
        };
        if let Some(ours) = name(&entry.by) {
            let same = self.ledger.values().filter(|other| other.captured > 0 && !other.is_revived);
            let charges = same.filter(|other| name(&other.by).as_ref() == Some(&ours)).count();
            if charges > 1 {
                self.violated(ONE_CHARGE, format!("{charges} charges under the key {ours}"));
            }
        }
        self.judge_reserved(&entry);
    }

    /// What the ledger gives back is reserved in the rows before.
    fn judge_reserved(&mut self, entry: &Entry) {
        let is_its = |seen: &&Seen| seen.payment.as_ref().is_some_and(|p| p.id == entry.resource);
        let Some(seen) = self.objects.values().find(is_its) else { return };
        let rows = sum(&seen.refunds);
        if entry.refunded > rows && !entry.is_revived {
            self.violated(SUMS, format!("the ledger gives back {}, the rows {rows}", entry.refunded));
        }
    }

    /// A refund of a provider's ledger changed.
    pub(crate) fn returned(&mut self, refund: Returned) {
        let is_new = self.returned.insert(refund.id.clone(), refund.clone()).is_none();
        let twice = self.returned.values().filter(|other| other.by == refund.by).count() > 1;
        if twice {
            self.violated(ONE_CHARGE, format!("two refunds under {}", refund.by));
        }
        if is_new && self.told_nothing(&refund.by) {
            self.violated(TRUE_VERDICT, format!("after the verdict that nothing moved: {refund:?}"));
        }
    }
}
