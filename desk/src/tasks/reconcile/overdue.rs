//! Flags money that is late: it is not in Stripe's balance yet.

use worker::Result;

use super::periods::is_surely_in;
use super::session::Reconciliation;
use crate::tasks::breaks::{BATCHES_MAX, BREAKS_MAX, HOLDS_MONEY, MARK_GONE, UNBOOKED};
use runtime::db::{self, Statement};

/// After how long captured or refunded money must be in the provider's balance, in ms: asynchronous captures take a while.
const UNMOVED_MS: u64 = 86_400_000;

impl Reconciliation {
    /// Closes, and opens, breaks of money that we recorded as captured or refunded long ago and that is not in the provider's balance, by how far that
    /// was read. A payment that has left for history and has changed since does not say any more where it was found: that is remembered there.
    pub(super) fn unmoved_statements(&self, (since_ms, through_ms): (u64, u64)) -> Result<[Statement; 2]> {
        let until_ms = through_ms.min(self.now_ms).saturating_sub(UNMOVED_MS);
        let gone = format!(
            "UPDATE breaks SET {MARK_GONE} WHERE kind = 'unmoved' AND state = 'open' AND NOT EXISTS (
                SELECT 1 FROM payments WHERE payment_id = breaks.resource AND {HOLDS_MONEY} AND status != 'requires_capture'
                    AND provider_payment = breaks.provider_payment AND moved_payment IS NOT provider_payment
                UNION ALL SELECT 1 FROM refunds WHERE provider_refund = breaks.provider_payment AND status = 'succeeded'
                    AND moved_refund IS NOT provider_refund) AND ?1 IS NULL"
        );
        let gone = Statement::new(&gone, vec![db::Value::Null, self.now_ms.into()]);
        let (spans, is_ours) = (serde_json::to_string(&self.books.spans)?, is_surely_in("?4"));
        let range = "updated_at_ms BETWEEN ?1 AND ?2";
        let sql = format!(
            "INSERT INTO breaks (break_id, kind, provider, provider_payment, resource, object, ours, state, first_seen_at_ms,
                last_seen_at_ms)
             SELECT 'unmoved:stripe:' || unmoved, 'unmoved', 'stripe', unmoved, resource, object, ours, 'open', ?3, ?3 FROM (
                SELECT provider_payment AS unmoved, payment_id AS resource, object,
                    status || ': ' || captured_minor || ' ' || currency || ' taken' AS ours
                FROM payments WHERE provider = 'stripe' AND {HOLDS_MONEY} AND {UNBOOKED} AND status != 'requires_capture'
                    AND provider_payment IS NOT NULL AND moved_payment IS NOT provider_payment AND {is_ours} AND {range}
                    AND NOT EXISTS (SELECT 1 FROM history_payments h WHERE h.object = unhex(payments.object) AND h.is_booked = 1)
                UNION ALL
                SELECT refunds.provider_refund, refunds.payment_id, payments.object,
                    refunds.status || ': ' || refunds.amount_minor || ' ' || refunds.currency || ' refunded'
                FROM refunds JOIN payments ON payments.payment_id = refunds.payment_id
                WHERE refunds.provider = 'stripe' AND refunds.status = 'succeeded'
                    AND refunds.moved_refund IS NOT refunds.provider_refund
                    AND {is_ours} AND refunds.updated_at_ms BETWEEN ?1 AND ?2
                    AND NOT EXISTS (SELECT 1 FROM history_payments h JOIN history_batches b ON b.batch = h.batch
                        WHERE h.object = unhex(payments.object) AND h.is_booked = 1 AND refunds.created_at_ms < b.began_at_ms))
             WHERE NOT EXISTS (SELECT 1 FROM breaks WHERE break_id = 'unmoved:stripe:' || unmoved AND state IN ('open', 'accepted'))
             LIMIT {BREAKS_MAX}
             ON CONFLICT (break_id) DO UPDATE SET state = 'open', ours = excluded.ours, last_seen_at_ms = excluded.last_seen_at_ms"
        );
        let values = vec![since_ms.into(), until_ms.into(), self.now_ms.into(), spans.into()];
        Ok([gone, Statement::new(&sql, values)])
    }

    /// Flags that money in D1. Returns how much.
    pub(super) async fn flag_unmoved(&mut self, [gone, flag]: [Statement; 2]) -> Result<usize> {
        self.resolved += self.run(&gone.sql, gone.values).await?;
        let mut all = 0;
        for _ in 0..BATCHES_MAX {
            let made = self.run(&flag.sql, flag.values.clone()).await?;
            all += made;
            if made < BREAKS_MAX {
                break;
            }
        }
        Ok(all)
    }
}
