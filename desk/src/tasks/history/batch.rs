//! A batch: which payments leave together, and which files that makes. Pure.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Datelike};
use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::parquet::{self, Column};
use super::rows::{self, AuditRow, KeyRow, PaymentRow, RefundRow};

/// How many payments leave together at most.
pub(super) const PAYMENTS_MAX: usize = 2_500;
/// How many audit records they have at most, but for the last one's. So a batch is read with a few MB.
pub(super) const AUDIT_MAX: u64 = 15_000;

/// A payment that was looked at.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Candidate {
    /// Its row: with the time its place in the order.
    pub(super) place: u64,
    pub(super) payment_id: String,
    pub(super) object: String,
    pub(super) version: u64,
    pub(super) created_at_ms: u64,
    pub(super) provider_payment: Option<String>,
    /// It has left from here before.
    pub(super) is_known: u8,
    pub(super) may_leave: u8,
    audit_through: u64,
    audit_newest: u64,
    audit_number: u64,
}

impl Candidate {
    /// An object numbers its audit records without a gap. Where one is missing here its news were lost: the payment stays until it has told them.
    fn is_complete(&self) -> bool {
        self.audit_number == self.audit_newest.saturating_sub(self.audit_through)
    }
}

/// What comes of a look.
#[derive(Debug, Default)]
pub(super) struct Chosen<'a> {
    pub(super) leaving: Vec<&'a Candidate>,
    /// In which they were made.
    pub(super) month: String,
    /// Where the next look begins: after this one. `None` to begin again with the first.
    pub(super) last: Option<&'a Candidate>,
    /// How many stay because an audit record of theirs is missing.
    pub(super) incomplete: usize,
}

/// Of those looked at, as many of one month as may leave together. `is_last` says that there are no more after these.
pub(super) fn choose(looked_at: &[Candidate], is_last: bool) -> Chosen<'_> {
    let mut chosen = Chosen::default();
    let mut audit = 0_u64;
    for candidate in looked_at {
        let may_leave = candidate.may_leave == 1;
        if may_leave && candidate.is_complete() {
            let month = month(candidate.created_at_ms);
            let is_full = chosen.leaving.len() >= PAYMENTS_MAX || audit >= AUDIT_MAX;
            if is_full || (!chosen.leaving.is_empty() && month != chosen.month) {
                return chosen;
            }
            audit = audit.saturating_add(candidate.audit_number);
            chosen.month = month;
            chosen.leaving.push(candidate);
        }
        chosen.incomplete += usize::from(may_leave && !candidate.is_complete());
        chosen.last = Some(candidate);
    }
    if is_last {
        chosen.last = None;
    }
    chosen
}

/// The month of a time, such as `2025-10`.
pub(super) fn month(at_ms: u64) -> String {
    let time = at_ms.try_into().ok().and_then(DateTime::from_timestamp_millis).unwrap_or_default();
    format!("{:04}-{:02}", time.year(), time.month())
}

/// The kinds of files, in the order of the list.
pub(super) const KINDS: [&str; 4] = ["payments", "refunds", "keys", "audit"];

/// What the files of a batch are called in the bucket by. Each place counts its own batches.
#[derive(Clone, Copy, Debug)]
pub(super) struct Named<'a> {
    /// `None` for D1.
    pub(super) shard: Option<&'a str>,
    pub(super) month: &'a str,
    pub(super) batch: u64,
}

impl Named<'_> {
    pub(super) fn file(&self, kind: &str) -> String {
        let Self { shard, month, batch } = self;
        let place = shard.map(|shard| format!("{shard}-")).unwrap_or_default();
        format!("history/{kind}/{month}/{place}{batch:08}.parquet")
    }
}

/// A file that is to be there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct File {
    pub(super) kind: &'static str,
    pub(super) name: String,
    rows: usize,
    bytes: usize,
    pub(super) sha256: String,
    #[serde(skip)]
    pub(super) body: Vec<u8>,
}

/// All that was read of a batch.
#[derive(Debug, Default)]
pub(super) struct Read {
    pub(super) payments: Vec<PaymentRow>,
    pub(super) refunds: Vec<RefundRow>,
    pub(super) keys: Vec<KeyRow>,
    pub(super) audit: Vec<AuditRow>,
}

impl Read {
    /// Whether the payments are as they were claimed.
    pub(super) fn is_as_claimed(&self) -> bool {
        self.payments.iter().all(|payment| payment.version == Some(payment.claimed_version))
    }

    /// How many characters there are about jobs.
    pub(super) fn jobs_length(&self) -> usize {
        self.payments
            .iter()
            .filter_map(|payment| payment.done_jobs.as_ref())
            .map(|jobs| jobs.chars().count())
            .sum()
    }

    /// What the list of batches shows.
    pub(super) fn summary(&self) -> Value {
        let times = || self.payments.iter().filter_map(|payment| payment.created_at_ms);
        json!({
            "payments": self.payments.len(),
            "first_payment": self.payments.first().map(|payment| &payment.payment_id),
            "last_payment": self.payments.last().map(|payment| &payment.payment_id),
            "first_at_ms": times().min(),
            "last_at_ms": times().max(),
        })
    }

    /// What the payments are found by, besides their ids: a number and the object for each.
    pub(super) fn names(&self) -> Vec<(u64, &str)> {
        let of: BTreeMap<&str, &str> = self
            .payments
            .iter()
            .map(|payment| (payment.payment_id.as_str(), payment.object.as_str()))
            .collect();
        let of_payments = self.payments.iter().flat_map(|payment| {
            [&payment.provider_payment, &payment.order_id]
                .into_iter()
                .flatten()
                .map(|text| (text.as_str(), payment.object.as_str()))
        });
        let of_refunds = self.refunds.iter().flat_map(|refund| {
            let object = of.get(refund.payment_id.as_str()).copied();
            [Some(&refund.refund_id), refund.provider_refund.as_ref()]
                .into_iter()
                .flatten()
                .filter_map(move |text| object.map(|object| (text.as_str(), object)))
        });
        let names: BTreeSet<(u64, &str)> =
            of_payments.chain(of_refunds).map(|(text, object)| (name(text), object)).collect();
        names.into_iter().collect()
    }

    /// The files, of the rows that are in none yet. A payment that has left before leaves with what has changed since: a newer version of its
    /// row, of its keys and refunds, and its newer audit records.
    pub(super) fn files(self, named: Named<'_>) -> Vec<File> {
        let Self { payments, refunds, mut keys, mut audit } = self;
        let known: BTreeSet<(String, u64)> =
            keys.iter().map(|key| (key.object.clone(), key.key_id)).collect();
        let own = payments.iter().filter_map(PaymentRow::own_key);
        keys.extend(own.filter(|key| !known.contains(&(key.object.clone(), key.key_id))));
        keys.sort_by(|a, b| (&a.object, a.key_id).cmp(&(&b.object, b.key_id)));
        let known: BTreeSet<(String, u64)> =
            audit.iter().map(|record| (record.object.clone(), record.audit_id)).collect();
        let own = payments.iter().flat_map(PaymentRow::own_audit);
        audit.extend(own.filter(|record| !known.contains(&(record.object.clone(), record.audit_id))));
        audit.sort_by(|a, b| (&a.object, a.audit_id).cmp(&(&b.object, b.audit_id)));
        let left = |payment: &PaymentRow| (payment.left_version.unwrap_or(0), payment.audit_through);
        let by_object: BTreeMap<&str, (u64, u64)> =
            payments.iter().map(|payment| (payment.object.as_str(), left(payment))).collect();
        let by_id: BTreeMap<&str, (u64, u64)> =
            payments.iter().map(|payment| (payment.payment_id.as_str(), left(payment))).collect();
        let is_newer = |of: &BTreeMap<&str, (u64, u64)>, id: &str, version: u64| {
            of.get(id).is_none_or(|(left, _)| version > *left)
        };
        let refunds: Vec<_> =
            refunds.into_iter().filter(|row| is_newer(&by_id, &row.payment_id, row.version)).collect();
        let keys: Vec<_> =
            keys.into_iter().filter(|row| is_newer(&by_object, &row.object, row.version)).collect();
        let has_not_left = |row: &AuditRow| {
            by_object.get(row.object.as_str()).is_none_or(|(_, through)| row.audit_id > *through)
        };
        let audit: Vec<_> = audit.into_iter().filter(has_not_left).collect();
        let mut sorted: Vec<_> =
            payments.iter().filter(|row| row.version > row.left_version).cloned().collect();
        sorted.sort_by(|a, b| (a.created_at_ms, &a.payment_id).cmp(&(b.created_at_ms, &b.payment_id)));
        let [of_payments, of_refunds, of_keys, of_audit] = KINDS;
        let files = [
            file(of_payments, named, &sorted, &rows::PAYMENTS),
            file(of_refunds, named, &refunds, &rows::REFUNDS),
            file(of_keys, named, &keys, &rows::KEYS),
            file(of_audit, named, &audit, &rows::AUDIT),
        ];
        files.into_iter().flatten().collect()
    }
}

/// `None` without rows.
fn file<R>(kind: &'static str, named: Named<'_>, rows: &[R], columns: &[Column<R>]) -> Option<File> {
    if rows.is_empty() {
        return None;
    }
    let body = parquet::file(rows, columns);
    let sha256 = HEXLOWER.encode(&Sha256::digest(&body));
    Some(File { kind, name: named.file(kind), rows: rows.len(), bytes: body.len(), sha256, body })
}

/// What a text is found by: the first 47 bits of its SHA-256, which SQLite keeps in six bytes. Two texts that share them would lead to two
/// payments.
pub(crate) fn name(text: &str) -> u64 {
    let hash = Sha256::digest(text.as_bytes());
    hash.iter().take(6).fold(0_u64, |bits, byte| (bits << 8) | u64::from(*byte)) >> 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(place: u64, created_at_ms: u64) -> Candidate {
        Candidate {
            place,
            payment_id: format!("pay_{place}"),
            object: format!("{place:064x}"),
            version: 3,
            created_at_ms,
            provider_payment: None,
            is_known: 0,
            may_leave: 1,
            audit_through: 0,
            audit_newest: 2,
            audit_number: 2,
        }
    }

    const NOVEMBER_MS: u64 = 1_793_491_200_000;

    #[test]
    fn those_of_a_month_leave_together_and_the_next_look_begins_with_the_others() {
        let looked_at =
            [candidate(1, NOVEMBER_MS - 2), candidate(2, NOVEMBER_MS - 1), candidate(3, NOVEMBER_MS)];
        let chosen = choose(&looked_at, true);
        assert_eq!((chosen.month.as_str(), chosen.leaving.len()), ("2026-10", 2));
        assert_eq!(chosen.last.unwrap().place, 2);
        let chosen = choose(&looked_at[2..], true);
        assert_eq!((chosen.month.as_str(), chosen.leaving.len()), ("2026-11", 1));
        assert!(chosen.last.is_none(), "then from the first again");
    }

    #[test]
    fn who_may_not_leave_or_lacks_a_record_is_passed_over() {
        let mut looked_at = [candidate(1, 1), candidate(2, 2), candidate(3, 3)];
        looked_at[0].may_leave = 0;
        looked_at[1].audit_newest = 3;
        let chosen = choose(&looked_at, false);
        assert_eq!(chosen.leaving.iter().map(|it| it.place).collect::<Vec<_>>(), [3]);
        assert_eq!((chosen.incomplete, chosen.last.unwrap().place), (1, 3));
        // It has left before, and what it has told since is here.
        looked_at[1].audit_through = 1;
        assert_eq!(choose(&looked_at, false).leaving.len(), 2);
    }

    #[test]
    fn a_batch_is_bounded() {
        let many: Vec<_> = (1..=3_000).map(|place| candidate(place, place)).collect();
        let chosen = choose(&many, true);
        assert_eq!((chosen.leaving.len(), chosen.last.unwrap().place), (2_500, 2_500));
        let long = many.iter().cloned().map(|it| Candidate { audit_newest: 500, audit_number: 500, ..it });
        assert_eq!(choose(&long.collect::<Vec<_>>(), true).leaving.len(), 30);
    }

    #[test]
    fn files_of_two_places_are_never_called_alike() {
        let named = |shard| Named { shard, month: "2026-10", batch: 12 }.file("keys");
        assert_eq!(named(None), "history/keys/2026-10/00000012.parquet");
        assert_eq!(named(Some("g1-2026-10-003")), "history/keys/2026-10/g1-2026-10-003-00000012.parquet");
    }

    #[test]
    fn a_name_fits_into_six_bytes() {
        for text in ["pi_1", "order-1", ""] {
            assert!(name(text) < 1 << 47);
        }
        assert_ne!(name("pi_1"), name("pi_2"));
    }
}
