//! Flags what is late: money that is not in Stripe's balance yet, and payments of which Adyen has sent nothing.

use worker::Result;

use super::periods::is_surely_in;
use super::session::Reconciliation;
use crate::tasks::breaks::{BATCHES_MAX, BREAKS_MAX, HOLDS_MONEY, MARK_GONE, UNBOOKED};
use crate::tasks::cursor::Source;
use runtime::db;

/// After how long without a webhook an Adyen payment is flagged, in ms: Adyen's API cannot be asked.
const SILENT_MS: u64 = 86_400_000;
/// After how long captured or refunded money must be in the provider's balance, in ms: asynchronous captures take a while.
const UNMOVED_MS: u64 = 86_400_000;

impl Reconciliation {
    /// Flags money that we recorded as captured or refunded long ago and that is not in the provider's balance. A payment that has left for
    /// history and has changed since does not say any more where it was found: that is remembered there.
    pub(super) async fn flag_unmoved(&mut self) -> Result<usize> {
        let Some((since_ms, through_ms)) = self.span_read(Source::Movements).await? else { return Ok(0) };
        let until_ms = through_ms.min(self.now_ms).saturating_sub(UNMOVED_MS);
        let gone = format!(
            "UPDATE breaks SET {MARK_GONE} WHERE kind = 'unmoved' AND state = 'open' AND NOT EXISTS (
                SELECT 1 FROM payments WHERE payment_id = breaks.resource AND {HOLDS_MONEY} AND status != 'requires_capture'
                    AND provider_payment = breaks.provider_payment AND moved_payment IS NOT provider_payment
                UNION ALL SELECT 1 FROM refunds WHERE provider_refund = breaks.provider_payment AND status = 'succeeded'
                    AND moved_refund IS NOT provider_refund) AND ?1 IS NULL"
        );
        self.resolved += self.run_in_all(&gone, vec![db::Value::Null, self.now_ms.into()]).await?;
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
        let mut all = 0;
        for _ in 0..BATCHES_MAX {
            let values = vec![since_ms.into(), until_ms.into(), self.now_ms.into(), spans.as_str().into()];
            let made = self.run_in_all(&sql, values).await?;
            all += made;
            if made < BREAKS_MAX {
                break;
            }
        }
        Ok(all)
    }

    /// Flags Adyen payments, captures and voids without a webhook: Adyen has no list and no way to ask.
    pub(super) async fn flag_silent_adyen(&mut self) -> Result<usize> {
        let silent_since_ms = self.now_ms.saturating_sub(SILENT_MS);
        let sql =
            "UPDATE breaks SET state = 'resolved' WHERE kind = 'silent' AND state = 'open' AND NOT EXISTS (
                SELECT 1 FROM payments WHERE payment_id = breaks.resource AND payments.provider = 'adyen'
                    AND (status = 'processing' OR pending_operation IS NOT NULL))";
        self.run_in_all(sql, vec![]).await?;
        let sql = "INSERT INTO breaks (break_id, kind, provider, provider_payment, resource, object, ours, state, first_seen_at_ms,
                last_seen_at_ms)
             SELECT 'silent:adyen:' || payment_id, 'silent', provider, provider_payment, payment_id, object, status, 'open', ?1, ?1
             FROM payments WHERE payment_id IN (
                SELECT payment_id FROM payments WHERE status = 'processing' AND status != 'succeeded' AND provider = 'adyen'
                    AND created_at_ms < ?2
                UNION ALL SELECT payment_id FROM payments WHERE pending_operation IS NOT NULL AND provider = 'adyen'
                    AND updated_at_ms < ?2)
             ON CONFLICT (break_id) DO UPDATE SET last_seen_at_ms = excluded.last_seen_at_ms,
                state = CASE breaks.state WHEN 'accepted' THEN 'accepted' ELSE 'open' END";
        self.run_in_all(sql, vec![self.now_ms.into(), silent_since_ms.into()]).await
    }
}
