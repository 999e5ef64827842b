//! What Stripe has, and whose money has moved there: marks on our payments and refunds, by which those are found that it has not.

use std::collections::BTreeSet;

use crate::tasks::placed;
use runtime::db::Statement;

/// What is to be marked where it stands, by Stripe's ids.
#[derive(Default)]
pub(super) struct Marks<'a> {
    /// Payments that Stripe has.
    pub(super) listed: BTreeSet<&'a str>,
    /// Payments whose money is in Stripe's balance.
    pub(super) moved: BTreeSet<&'a str>,
    /// Refunds whose money has left it.
    pub(super) refunded: BTreeSet<&'a str>,
}

impl Marks<'_> {
    pub(super) fn is_empty(&self) -> bool {
        self.listed.is_empty() && self.moved.is_empty() && self.refunded.is_empty()
    }

    pub(super) fn statements(&self) -> serde_json::Result<Vec<Statement>> {
        let mut statements = Vec::new();
        for (ids, mark) in [(&self.listed, "listed_payment"), (&self.moved, "moved_payment")] {
            if !ids.is_empty() {
                let sql = format!(
                    "UPDATE payments SET {mark} = provider_payment
                     WHERE provider_payment IN (SELECT value FROM json_each(?1)) AND {mark} IS NOT provider_payment"
                );
                statements.push(Statement::new(sql, vec![placed::json(ids)?.into()]));
            }
        }
        if !self.refunded.is_empty() {
            let sql = "UPDATE refunds SET moved_refund = provider_refund
                WHERE provider_refund IN (SELECT value FROM json_each(?1)) AND moved_refund IS NOT provider_refund";
            statements.push(Statement::new(sql, vec![placed::json(&self.refunded)?.into()]));
        }
        Ok(statements)
    }
}

/// The statements that mark these in D1, where all is there.
pub(super) fn marking(marks: &Marks<'_>) -> serde_json::Result<Vec<Statement>> {
    marks.statements()
}

impl<'a> Marks<'a> {
    /// Those that this one lacks.
    pub(super) fn add(&mut self, one: &'a placed::Placed, marks: &Marks<'_>) {
        if let Some(payment) = one.record.provider_payment.as_deref() {
            if one.is_unlisted && marks.listed.contains(payment) {
                self.listed.insert(payment);
            }
            if one.is_unmoved && marks.moved.contains(payment) {
                self.moved.insert(payment);
            }
        }
        let unmoved = one.refunds.iter().filter(|refund| refund.is_unmoved != 0);
        let ids = unmoved.filter_map(|refund| refund.refund.provider_refund.as_deref());
        self.refunded.extend(ids.filter(|id| marks.refunded.contains(id)));
    }
}
