//! Flags money that is late: it is not in Stripe's balance yet.

use worker::Result;

use super::periods::is_surely_in;
use super::session::Reconciliation;
use crate::tasks::break_texts::{Done, amount_sql};
use crate::tasks::breaks::{
    BATCHES_MAX, BREAKS_MAX, HOLDS_MONEY, MARK_GONE, TAKEN_AT_MS, UNBOOKED, WAS_BOOKED,
};
use runtime::db::{self, Statement};

/// After how long captured or refunded money must be in the provider's balance, in ms: asynchronous captures take a while.
const UNMOVED_MS: u64 = 86_400_000;

impl Reconciliation {
    /// Closes, and opens, breaks of money that we recorded as captured or refunded long ago and that is not in the provider's balance, by how far that
    /// was read.
    pub(super) fn unmoved_statements(&self, span: (u64, u64)) -> Result<[Statement; 2]> {
        Ok(unmoved(span, &serde_json::to_string(&self.books.spans)?, self.now_ms))
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

/// The statements for money of the payments of these spans, in JSON, of which the balance was read from and to then. What was taken or given back
/// before that is in no list, whatever has changed since.
fn unmoved((since_ms, through_ms): (u64, u64), spans: &str, now_ms: u64) -> [Statement; 2] {
    let until_ms = through_ms.min(now_ms).saturating_sub(UNMOVED_MS);
    let gone = format!(
        "UPDATE breaks SET {MARK_GONE} WHERE kind = 'unmoved' AND state = 'open' AND NOT EXISTS (
            SELECT 1 FROM payments WHERE payment_id = breaks.resource AND {HOLDS_MONEY} AND status != 'requires_capture'
                AND provider_payment = breaks.provider_payment AND moved_payment IS NOT provider_payment
            UNION ALL SELECT 1 FROM refunds WHERE provider_refund = breaks.provider_payment AND status = 'succeeded'
                AND moved_refund IS NOT provider_refund) AND ?1 IS NULL"
    );
    let gone = Statement::new(&gone, vec![db::Value::Null, now_ms.into()]);
    let is_ours = is_surely_in("?4");
    let taken = amount_sql("status", "captured_minor", "currency", Some(Done::Captured));
    let refunded =
        amount_sql("refunds.status", "refunds.amount_minor", "refunds.currency", Some(Done::Refunded));
    let sql = format!(
        "INSERT INTO breaks (break_id, kind, provider, provider_payment, resource, object, ours, state, first_seen_at_ms,
            last_seen_at_ms)
         SELECT 'unmoved:stripe:' || unmoved, 'unmoved', 'stripe', unmoved, resource, object, ours, 'open', ?3, ?3 FROM (
            SELECT provider_payment AS unmoved, payment_id AS resource, object,
                {taken} AS ours
            FROM payments WHERE provider = 'stripe' AND {HOLDS_MONEY} AND {UNBOOKED} AND status != 'requires_capture'
                AND provider_payment IS NOT NULL AND moved_payment IS NOT provider_payment AND {is_ours}
                AND updated_at_ms BETWEEN ?1 AND ?2 AND {TAKEN_AT_MS} >= ?1 AND NOT {WAS_BOOKED}
            UNION ALL
            SELECT refunds.provider_refund, refunds.payment_id, payments.object,
                {refunded}
            FROM refunds JOIN payments ON payments.payment_id = refunds.payment_id
            WHERE refunds.provider = 'stripe' AND refunds.status = 'succeeded'
                AND refunds.moved_refund IS NOT refunds.provider_refund
                AND {is_ours} AND refunds.updated_at_ms BETWEEN ?1 AND ?2 AND refunds.created_at_ms >= ?1
                AND NOT EXISTS (SELECT 1 FROM history_payments h JOIN history_batches b ON b.batch = h.batch
                    WHERE h.object = unhex(payments.object) AND h.is_booked = 1 AND refunds.created_at_ms < b.began_at_ms))
         WHERE NOT EXISTS (SELECT 1 FROM breaks WHERE break_id = 'unmoved:stripe:' || unmoved AND state IN ('open', 'accepted'))
         LIMIT {BREAKS_MAX}
         ON CONFLICT (break_id) DO UPDATE SET state = 'open', note = NULL, ours = excluded.ours, last_seen_at_ms = excluded.last_seen_at_ms"
    );
    let values = vec![since_ms.into(), until_ms.into(), now_ms.into(), spans.into()];
    [gone, Statement::new(&sql, values)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tasks::late::tests::read_model;
    use crate::tasks::reconcile::periods::Span;
    use crate::tasks::simulation::{bound, execute};

    const DAY_MS: u64 = 86_400_000;

    #[test]
    fn money_from_before_the_list_was_read_is_not_missing_in_it_whatever_changes_later() {
        let (since_ms, now_ms) = (100 * DAY_MS, 200 * DAY_MS);
        let model = read_model();
        // Their rows were written anew long after: a refund, a rebuild, personal data that were dropped.
        let changed_at_ms = (150 * DAY_MS).cast_signed();
        for (number, made_at_day, taken_at_day) in
            [(1, 10, Some(10)), (2, 120, Some(120)), (3, 10, None), (4, 90, None)]
        {
            let sql = "INSERT INTO payments (payment_id, object, version, owner, status, amount_minor, captured_minor, refunded_minor, currency,
                    provider, provider_payment, attempt, shown, created_at_ms, updated_at_ms, captured_at_ms)
                 VALUES (?1, ?2, 1, 'a', 'succeeded', 900, 900, 100, 'eur', 'stripe', ?3, 1, '{}', ?4, ?5, ?6)";
            let made_at_ms = (made_at_day * DAY_MS).cast_signed();
            let taken_at_ms = taken_at_day.map(|day: u64| (day * DAY_MS).cast_signed());
            let (payment, object) = (format!("pay_{number}"), format!("0{number}"));
            let values = (&payment, &object, format!("pi_{number}"), made_at_ms, changed_at_ms, taken_at_ms);
            execute(&model, sql, values).unwrap();
            let sql = "INSERT INTO refunds (refund_id, payment_id, version, status, amount_minor, currency, reason, provider, provider_refund,
                    created_at_ms, updated_at_ms) VALUES (?1, ?1, 1, 'succeeded', 100, 'eur', '', 'stripe', ?2, ?3, ?4)";
            execute(&model, sql, (&payment, format!("re_{number}"), made_at_ms, changed_at_ms)).unwrap();
        }
        // It was reserved before, and taken later.
        let sql = "INSERT INTO audit_records VALUES ('04', 2, ?1, 'a', 'payment.captured', 'pay_4', '{}')";
        execute(&model, sql, [(110 * DAY_MS).cast_signed()]).unwrap();
        // One was accepted once, closed, and is found again: what justified another one justifies it no more.
        let sql = "INSERT INTO breaks (break_id, kind, provider, provider_payment, state, note, first_seen_at_ms, last_seen_at_ms)
             VALUES ('unmoved:stripe:pi_2', 'unmoved', 'stripe', 'pi_2', 'resolved', 'known', 1, 1)";
        execute(&model, sql, ()).unwrap();
        let spans = serde_json::to_string(&[Span::always(None)]).unwrap();
        for Statement { sql, values } in unmoved((since_ms, now_ms), &spans, now_ms) {
            execute(&model, &sql, bound(&values)).unwrap();
        }
        let sql = "SELECT provider_payment FROM breaks WHERE state = 'open' AND note IS NULL ORDER BY 1";
        let mut breaks = model.prepare(sql).unwrap();
        let found = breaks.query_map((), |row| row.get::<_, String>(0)).unwrap();
        assert_eq!(found.map(Result::unwrap).collect::<Vec<_>>(), ["pi_2", "pi_4", "re_2"]);
    }
}
