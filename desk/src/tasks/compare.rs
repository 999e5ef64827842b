//! Compares the provider's books with ours, entry by entry. Pure: what differs comes out as [`Break`]s.
//!
//! A break is found again under the same id as long as it lasts. What it says never decides about money: it is shown, and the
//! object that is meant is asked to find out what is true.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::break_texts::{Amount, PaymentSums, Side};
use super::provider_ledger::{LedgerStatus, RemoteRecord};
use payments::providers::Provider;

/// One payment, as the read model has it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct LocalRecord {
    /// Our id of it.
    pub resource: String,
    /// Its object, as hexadecimal digits.
    pub object: String,
    /// Where the newest try is.
    pub provider: String,
    /// The status.
    pub status: String,
    /// What was asked for, in minor units.
    pub amount_minor: u64,
    /// What was captured, in minor units.
    pub captured_minor: u64,
    /// What was certainly refunded, by us or elsewhere, in minor units.
    pub refunded_minor: u64,
    /// Refunds that are still pending, in minor units.
    pub refunding_minor: u64,
    /// How many captures were made through our API: 0 or 1.
    pub own_captures: u64,
    /// In lower case.
    pub currency: String,
    /// The provider's id of it.
    pub provider_payment: Option<String>,
    /// The merchant account at Adyen that it was made in, where that is its account's own.
    #[serde(default)]
    pub merchant_account: Option<String>,
    /// The provider's id of the dispute that it knows of.
    pub dispute: Option<String>,
    /// The ids of all its disputes at Adyen, with a space between: only one of them is shown.
    #[serde(default)]
    pub disputes: Option<String>,
    /// How that stands: `open`, `won` or `lost`.
    pub dispute_status: Option<String>,
    /// How much it is about, in minor units; of several disputes, as what they are shown together.
    #[serde(default)]
    pub dispute_minor: Option<u64>,
    /// Whether that is withdrawn: 0 or 1.
    #[serde(default)]
    pub dispute_withdrawn: Option<u8>,
    /// When it was created, in ms since the epoch.
    pub created_at_ms: u64,
    /// When the read model got its latest change, in ms since the epoch.
    pub updated_at_ms: u64,
}

impl LocalRecord {
    /// The status that the provider's books should show. `None` for an unknown status.
    fn ledger_status(&self) -> Option<LedgerStatus> {
        Some(match self.status.as_str() {
            "succeeded" | "disputed" => LedgerStatus::Captured,
            "requires_capture" => LedgerStatus::Authorized,
            "canceled" | "expired" => LedgerStatus::Canceled,
            "declined" | "failed" => LedgerStatus::Unpaid,
            "processing" | "requires_action" | "capture_failed" => LedgerStatus::Pending,
            _ => return None,
        })
    }

    /// The authorized amount that was not captured and that Stripe may count as refunded, in minor units.
    ///
    /// With an API version before 2025-03-31.basil, a partial capture refunds the rest: the charge's `amount_refunded` counts it, and
    /// Stripe lists a Refund that is not ours. Later versions do not. Our own captures use a later version; captures made in the
    /// dashboard or by another system may not.
    /// <https://support.stripe.com/questions/changes-to-balance-transaction-behavior-for-partial-capture-and-payment-cancellation-flows>
    fn released_minor(&self) -> u64 {
        if self.own_captures > 0 { 0 } else { self.amount_minor.saturating_sub(self.captured_minor) }
    }

    /// Whether this can be the sum of our refunds, with or without the pending ones.
    fn gave_back(&self, minor: u64) -> bool {
        let all = self.refunded_minor.saturating_add(self.refunding_minor);
        (self.refunded_minor..=all).contains(&minor)
    }

    /// Whether our records explain Stripe's sum of refunds.
    fn explains(&self, refunded_minor: u64) -> bool {
        let without_release = refunded_minor.checked_sub(self.released_minor());
        self.gave_back(refunded_minor) || without_release.is_some_and(|minor| self.gave_back(minor))
    }

    /// Whether we know of a dispute at Adyen.
    pub fn has_dispute(&self, id: &str) -> bool {
        self.dispute.as_deref() == Some(id)
            || self.disputes.as_ref().is_some_and(|all| all.split(' ').any(|known| known == id))
    }

    /// As a break has it.
    pub fn describe(&self) -> String {
        let sums = PaymentSums {
            status: self.status.clone(),
            captured_minor: self.captured_minor,
            amount: Amount { minor: self.amount_minor, currency: self.currency.clone() },
            refunded_minor: self.refunded_minor,
            refunding_minor: self.refunding_minor,
        };
        Side::Payment(sums).to_string()
    }
}

impl RemoteRecord {
    fn describe(&self) -> String {
        let sums = PaymentSums {
            status: self.status.as_str().to_owned(),
            captured_minor: self.taken_minor,
            amount: Amount { minor: self.amount_minor, currency: self.currency.clone() },
            refunded_minor: self.refunded_minor,
            refunding_minor: 0,
        };
        Side::Payment(sums).to_string()
    }
}

/// How our records and the provider's books differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The provider has, or may take, money for a payment that we do not know.
    Orphan,
    /// We recorded money as captured or authorized, and the provider has no such payment.
    Missing,
    /// The amounts differ.
    Amount,
    /// The statuses differ.
    Status,
    /// Money moved in the provider's balance, and we have no record of it.
    Movement,
    /// We do not know of a dispute, or it stands otherwise. A comparison of payments says nothing about it.
    Dispute,
    /// Stripe gives no usable answer about a payment, a movement or a dispute, however often it is asked: it could not be compared.
    Unanswered,
    /// Books with payments of ours that nobody has a key for any more. It is about none of them alone.
    Ended,
}

impl Kind {
    /// As it is stored.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Orphan => "orphan",
            Self::Missing => "missing",
            Self::Amount => "amount",
            Self::Status => "status",
            Self::Movement => "movement",
            Self::Dispute => "dispute",
            Self::Unanswered => "unanswered",
            Self::Ended => "ended",
        }
    }
}

/// A difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Break {
    /// The kind of difference.
    pub kind: Kind,
    /// The provider's id.
    pub provider_payment: String,
    /// Our id, if the read model or the provider's metadata has one.
    pub resource: Option<String>,
    /// Its object, if the read model knows it.
    pub object: Option<String>,
    /// What we have.
    pub ours: Option<String>,
    /// What they have.
    pub theirs: Option<String>,
}

impl Break {
    /// The same difference has the same id in every run.
    pub fn id(&self, provider: &str) -> String {
        Self::id_of(self.kind, provider, &self.provider_payment)
    }

    /// The id of a difference of this kind, in what the provider calls so.
    pub fn id_of(kind: Kind, provider: &str, provider_payment: &str) -> String {
        format!("{}:{provider}:{provider_payment}", kind.as_str())
    }

    fn of(kind: Kind, entry: &RemoteRecord, ours: Option<&LocalRecord>) -> Self {
        Self {
            kind,
            provider_payment: entry.id.clone(),
            resource: ours.map(|ours| ours.resource.clone()).or_else(|| entry.resource.clone()),
            object: ours.map(|ours| ours.object.clone()),
            ours: ours.map(LocalRecord::describe),
            theirs: Some(entry.describe()),
        }
    }
}

/// Our records, by the provider's ids and by ours.
#[derive(Default)]
pub struct LocalRecords {
    by_payment: BTreeMap<String, LocalRecord>,
    by_resource: BTreeMap<String, LocalRecord>,
}

impl LocalRecords {
    /// From rows in any order; duplicates are allowed.
    pub fn new(rows: Vec<LocalRecord>) -> Self {
        let mut known = Self::default();
        for row in rows {
            if let Some(id) = &row.provider_payment {
                known.by_payment.insert(id.clone(), row.clone());
            }
            known.by_resource.insert(row.resource.clone(), row);
        }
        known
    }

    /// Finds a payment by the provider's id.
    pub fn by_provider_id(&self, payment: &str) -> Option<&LocalRecord> {
        self.by_payment.get(payment)
    }

    fn of(&self, entry: &RemoteRecord) -> Option<&LocalRecord> {
        self.find(&entry.id, entry.resource.as_deref())
    }

    /// Finds a payment by the provider's id, or else by ours.
    pub fn find(&self, payment: &str, resource: Option<&str>) -> Option<&LocalRecord> {
        self.by_payment.get(payment).or_else(|| self.by_resource.get(resource?))
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &LocalRecord> {
        self.by_resource.values()
    }
}

/// The result of comparing one payment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// They differ, but one of them changed a moment ago: the next run compares them again.
    TooRecent,
    /// Both say the same.
    Match,
    /// They differ.
    Mismatch(Break),
}

/// Compares a payment in the provider's books with ours. What was created or changed after `quiet_since_ms` (since the epoch) is too
/// recent: webhooks and projections may still be on their way.
pub fn compare(entry: &RemoteRecord, known: &LocalRecords, quiet_since_ms: u64) -> Comparison {
    let ours = known.of(entry);
    let changed_at_ms = ours.map_or(0, |ours| ours.updated_at_ms).max(entry.created_at_ms);
    match difference(entry, ours) {
        None => Comparison::Match,
        Some(_) if changed_at_ms > quiet_since_ms => Comparison::TooRecent,
        Some(kind) => Comparison::Mismatch(Break::of(kind, entry, ours)),
    }
}

fn difference(entry: &RemoteRecord, ours: Option<&LocalRecord>) -> Option<Kind> {
    let has_money = matches!(entry.status, LedgerStatus::Captured | LedgerStatus::Authorized);
    let Some(ours) = ours else {
        // An unpaid payment that was made elsewhere does not matter; one that carries our id must be known here.
        let matters = has_money || entry.resource.is_some();
        return matters.then_some(Kind::Orphan);
    };
    let is_ours = ours.provider == Provider::Stripe.as_str();
    match &ours.provider_payment {
        Some(id) if is_ours && *id == entry.id => {}
        // We have not received its id yet. It may also be an earlier, unpaid try.
        None if is_ours => return has_money.then_some(Kind::Status),
        // An earlier try of an order: we consider it unpaid, so its money is recorded nowhere. Where all of it is back there is none.
        _ => return (has_money && entry.refunded_minor < entry.amount_minor).then_some(Kind::Orphan),
    }
    let agrees = match (ours.ledger_status()?, entry.status) {
        // A failed try can be canceled, pending or unpaid at the provider: no money was captured.
        (LedgerStatus::Unpaid, theirs) => {
            !matches!(theirs, LedgerStatus::Captured | LedgerStatus::Authorized)
        }
        (ours, theirs) => ours == theirs,
    };
    if !agrees {
        return Some(Kind::Status);
    }
    let is_taken = entry.status == LedgerStatus::Captured;
    let differs = ours.currency != entry.currency
        || (has_money && ours.amount_minor != entry.amount_minor)
        // Stripe may count a released authorization as refunded. After a partial capture the rest may still be authorized.
        || (has_money && ours.captured_minor != entry.taken_minor)
        || (is_taken && !ours.explains(entry.refunded_minor));
    differs.then_some(Kind::Amount)
}

/// Whether the provider must have this payment.
pub fn must_exist(ours: &LocalRecord) -> bool {
    matches!(ours.ledger_status(), Some(LedgerStatus::Captured | LedgerStatus::Authorized))
}

/// The break for a payment that the provider does not have.
pub fn missing(ours: &LocalRecord) -> Break {
    Break {
        kind: Kind::Missing,
        provider_payment: ours.provider_payment.clone().unwrap_or_else(|| ours.resource.clone()),
        resource: Some(ours.resource.clone()),
        object: Some(ours.object.clone()),
        ours: Some(ours.describe()),
        theirs: None,
    }
}

#[cfg(test)]
impl LocalRecord {
    /// One that was captured, for tests.
    pub(super) fn captured(provider: &str, provider_payment: &str, minor: u64, currency: &str) -> Self {
        Self {
            resource: "pay_1".to_owned(),
            object: "ab".to_owned(),
            provider: provider.to_owned(),
            status: "succeeded".to_owned(),
            amount_minor: minor,
            captured_minor: minor,
            refunded_minor: 0,
            refunding_minor: 0,
            own_captures: 0,
            currency: currency.to_owned(),
            provider_payment: Some(provider_payment.to_owned()),
            merchant_account: None,
            dispute: None,
            disputes: None,
            dispute_status: None,
            dispute_minor: None,
            dispute_withdrawn: None,
            created_at_ms: 900,
            updated_at_ms: 1_100,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn theirs() -> RemoteRecord {
        RemoteRecord {
            id: "pi_1".to_owned(),
            status: LedgerStatus::Captured,
            amount_minor: 500,
            taken_minor: 500,
            refunded_minor: 0,
            currency: "usd".to_owned(),
            created_at_ms: 1_000,
            resource: Some("pay_1".to_owned()),
        }
    }

    fn ours() -> LocalRecord {
        LocalRecord::captured("stripe", "pi_1", 500, "usd")
    }

    fn kind(theirs: &RemoteRecord, ours: impl IntoIterator<Item = LocalRecord>) -> Option<Kind> {
        match compare(theirs, &LocalRecords::new(ours.into_iter().collect()), 2_000) {
            Comparison::Mismatch(found) => Some(found.kind),
            Comparison::Match => None,
            Comparison::TooRecent => panic!("too young"),
        }
    }

    #[test]
    fn books_that_agree_have_no_break() {
        assert_eq!(kind(&theirs(), [ours()]), None);
        for (local, status) in [
            ("paid", LedgerStatus::Captured),
            ("requires_capture", LedgerStatus::Authorized),
            ("canceled", LedgerStatus::Canceled),
            ("declined", LedgerStatus::Unpaid),
            ("failed", LedgerStatus::Canceled),
            ("unpaid", LedgerStatus::Pending),
            ("requires_action", LedgerStatus::Pending),
            ("processing", LedgerStatus::Pending),
        ] {
            let (taken, captured) = if status == LedgerStatus::Captured { (500, 500) } else { (0, 0) };
            let ours = LocalRecord { status: local.to_owned(), captured_minor: captured, ..ours() };
            assert_eq!(
                kind(&RemoteRecord { status, taken_minor: taken, ..theirs() }, [ours]),
                None,
                "{local}"
            );
        }
    }

    #[test]
    fn money_that_we_do_not_know_of_is_an_orphan() {
        assert_eq!(kind(&theirs(), []), Some(Kind::Orphan));
        let elsewhere = RemoteRecord { resource: None, ..theirs() };
        assert_eq!(kind(&elsewhere, []), Some(Kind::Orphan));
        assert_eq!(
            kind(&RemoteRecord { status: LedgerStatus::Unpaid, ..elsewhere }, []),
            None,
            "nothing was taken"
        );
        let unpaid = RemoteRecord { status: LedgerStatus::Unpaid, ..theirs() };
        assert_eq!(kind(&unpaid, []), Some(Kind::Orphan), "it names us");
    }

    #[test]
    fn an_earlier_try_is_an_orphan_only_if_it_has_money() {
        let ours = LocalRecord { provider_payment: Some("pi_2".to_owned()), ..ours() };
        assert_eq!(kind(&theirs(), [ours.clone()]), Some(Kind::Orphan));
        let back = |refunded_minor| RemoteRecord { refunded_minor, ..theirs() };
        assert_eq!(kind(&back(theirs().amount_minor - 1), [ours.clone()]), Some(Kind::Orphan));
        assert_eq!(kind(&back(theirs().amount_minor), [ours.clone()]), None, "all of it is back");
        let failed = RemoteRecord { status: LedgerStatus::Unpaid, taken_minor: 0, ..theirs() };
        assert_eq!(kind(&failed, [ours]), None);
        let rerouted = |status: &str| LocalRecord {
            provider: "adyen".to_owned(),
            provider_payment: None,
            status: status.to_owned(),
            captured_minor: 0,
            ..self::ours()
        };
        assert_eq!(kind(&failed, [rerouted("processing")]), None);
        assert_eq!(kind(&theirs(), [rerouted("processing")]), Some(Kind::Orphan));
    }

    #[test]
    fn a_state_that_only_one_of_us_knows_is_a_break() {
        for status in ["processing", "requires_action", "requires_capture", "declined", "canceled"] {
            let ours = LocalRecord { status: status.to_owned(), captured_minor: 0, ..ours() };
            assert_eq!(kind(&theirs(), [ours]), Some(Kind::Status), "{status}");
        }
        let lost = LocalRecord { status: "processing".to_owned(), provider_payment: None, ..ours() };
        assert_eq!(kind(&theirs(), [lost]), Some(Kind::Status), "found by what it is about");
        for status in
            [LedgerStatus::Pending, LedgerStatus::Authorized, LedgerStatus::Unpaid, LedgerStatus::Canceled]
        {
            assert_eq!(
                kind(&RemoteRecord { status, ..theirs() }, [ours()]),
                Some(Kind::Status),
                "{status:?}"
            );
        }
    }

    #[test]
    fn what_was_reserved_and_is_given_free_is_no_refund() {
        let freed =
            RemoteRecord { status: LedgerStatus::Canceled, taken_minor: 0, refunded_minor: 500, ..theirs() };
        let canceled = LocalRecord { status: "canceled".to_owned(), captured_minor: 0, ..ours() };
        assert_eq!(kind(&freed, [canceled]), None);
        let taken = RemoteRecord { refunded_minor: 500, ..theirs() };
        assert_eq!(kind(&taken, [ours()]), Some(Kind::Amount), "money that was taken is given back");
    }

    #[test]
    fn the_rest_of_a_capture_made_elsewhere_may_count_as_refunded() {
        let broken = |refunded, ours: &LocalRecord| {
            kind(&RemoteRecord { taken_minor: 350, refunded_minor: refunded, ..theirs() }, [ours.clone()])
                .is_some()
        };
        let elsewhere = LocalRecord { captured_minor: 350, ..ours() };
        for (refunded, expected) in
            [(0, false), (149, true), (150, false), (151, true), (350, true), (500, true)]
        {
            assert_eq!(broken(refunded, &elsewhere), expected, "nothing given back: {refunded}");
        }
        let given_back = LocalRecord { refunded_minor: 40, refunding_minor: 5, ..elsewhere };
        for (refunded, expected) in [
            (39, true),
            (40, false),
            (45, false),
            (46, true),
            (150, true),
            (189, true),
            (190, false),
            (195, false),
            (196, true),
        ] {
            assert_eq!(broken(refunded, &given_back), expected, "40 given back, 5 under way: {refunded}");
        }
        let own = LocalRecord { own_captures: 1, ..given_back };
        for (refunded, expected) in [(40, false), (190, true)] {
            assert_eq!(broken(refunded, &own), expected, "captured here: {refunded}");
        }
    }

    #[test]
    fn sums_that_differ_are_a_break() {
        assert_eq!(kind(&RemoteRecord { taken_minor: 499, ..theirs() }, [ours()]), Some(Kind::Amount));
        assert_eq!(
            kind(&RemoteRecord { currency: "eur".to_owned(), ..theirs() }, [ours()]),
            Some(Kind::Amount)
        );
        assert_eq!(kind(&RemoteRecord { refunded_minor: 1, ..theirs() }, [ours()]), Some(Kind::Amount));
        assert_eq!(kind(&theirs(), [LocalRecord { refunded_minor: 7, ..ours() }]), Some(Kind::Amount));
        let asked = LocalRecord { refunded_minor: 7, refunding_minor: 3, ..ours() };
        for (refunded, broken) in [(6, true), (7, false), (10, false), (11, true)] {
            let entry = RemoteRecord { refunded_minor: refunded, ..theirs() };
            assert_eq!(kind(&entry, [asked.clone()]).is_some(), broken, "{refunded}");
        }
    }

    #[test]
    fn what_has_just_changed_is_left_alone() {
        let known = |ours: LocalRecord| LocalRecords::new(vec![ours]);
        let differs = RemoteRecord { taken_minor: 1, ..theirs() };
        assert_eq!(compare(&differs, &known(ours()), 1_099), Comparison::TooRecent);
        assert_eq!(
            compare(&differs, &known(LocalRecord { updated_at_ms: 0, ..ours() }), 999),
            Comparison::TooRecent
        );
        assert!(matches!(compare(&differs, &known(ours()), 1_100), Comparison::Mismatch(_)));
    }

    #[test]
    fn a_break_has_the_same_id_at_every_run() {
        let Comparison::Mismatch(found) = compare(&theirs(), &LocalRecords::default(), 2_000) else {
            panic!()
        };
        assert_eq!(found.id("stripe"), "orphan:stripe:pi_1");
        assert_eq!(missing(&ours()).id("stripe"), "missing:stripe:pi_1");
        assert_eq!(
            missing(&LocalRecord { provider_payment: None, ..ours() }).id("stripe"),
            "missing:stripe:pay_1"
        );
        assert!(must_exist(&ours()));
        assert!(!must_exist(&LocalRecord { status: "declined".to_owned(), ..ours() }));
    }
}
