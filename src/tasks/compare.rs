//! Compares the provider's books with ours, entry by entry. Pure: what differs comes out as [`Break`]s.
//!
//! A break is found again under the same id as long as it lasts. What it says never decides about money: it is shown, and the
//! object that is meant is asked to find out what is true.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::books::{Entry, Standing};
use crate::providers::Provider;

/// One payment or ride, as the read model has it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Ours {
    /// Our id of it.
    pub resource: String,
    /// Its object, as hexadecimal digits.
    pub object: String,
    /// Where the newest try is.
    pub provider: String,
    /// The status: a payment's or a ride's.
    pub status: String,
    /// What was asked for, in minor units.
    pub amount_minor: u64,
    /// What was taken, in minor units.
    pub captured_minor: u64,
    /// What was given back for certain, by us or by others, in minor units.
    pub refunded_minor: u64,
    /// What may have been given back as well, in minor units.
    pub refunding_minor: u64,
    /// How often we have captured it ourselves: once or never.
    pub own_captures: u64,
    /// In lower case.
    pub currency: String,
    /// The provider's id of it.
    pub provider_payment: Option<String>,
    /// The provider's id of the dispute that it knows of.
    pub dispute: Option<String>,
    /// How that stands: `open`, `won` or `lost`.
    pub dispute_status: Option<String>,
    /// When it was made, in ms since the epoch.
    pub created_at_ms: u64,
    /// When the read model learnt of its newest change, in ms since the epoch.
    pub updated_at_ms: u64,
}

impl Ours {
    /// What we hold it to be. `None` is a status that is not known here.
    fn standing(&self) -> Option<Standing> {
        Some(match self.status.as_str() {
            "succeeded" | "disputed" | "paid" => Standing::Taken,
            "requires_capture" => Standing::Held,
            "canceled" | "expired" => Standing::Canceled,
            "declined" | "failed" | "unpaid" => Standing::Nothing,
            "processing" | "requires_action" | "capture_failed" | "pending" => Standing::Open,
            _ => return None,
        })
    }

    /// What was reserved, was not taken, and may count as refunded over there, in minor units.
    ///
    /// Whoever captures a part with an API version before 2025-03-31.basil makes a refund of the rest: `amount_refunded` of the
    /// charge counts it, and a Refund that is not ours is listed. Since then the rest is no refund. Our own captures carry our
    /// version, which is later; a person's at the dashboard, or another system's, may not.
    /// <https://support.stripe.com/questions/changes-to-balance-transaction-behavior-for-partial-capture-and-payment-cancellation-flows>
    fn released_minor(&self) -> u64 {
        if self.own_captures > 0 { 0 } else { self.amount_minor.saturating_sub(self.captured_minor) }
    }

    /// Whether this can be the sum of our refunds, those under way counted or not.
    fn gave_back(&self, minor: u64) -> bool {
        let all = self.refunded_minor.saturating_add(self.refunding_minor);
        (self.refunded_minor..=all).contains(&minor)
    }

    /// Whether this can be their sum of what was refunded.
    fn explains(&self, refunded_minor: u64) -> bool {
        let without_release = refunded_minor.checked_sub(self.released_minor());
        self.gave_back(refunded_minor) || without_release.is_some_and(|minor| self.gave_back(minor))
    }

    /// As breaks show it.
    pub fn face(&self) -> String {
        let refunding = match self.refunding_minor {
            0 => String::new(),
            more => format!(" (and {more} under way)"),
        };
        format!(
            "{}: {} of {} {} taken, {}{refunding} refunded",
            self.status, self.captured_minor, self.amount_minor, self.currency, self.refunded_minor
        )
    }
}

impl Entry {
    fn face(&self) -> String {
        format!(
            "{}: {} of {} {} taken, {} refunded",
            self.standing.as_str(),
            self.taken_minor,
            self.amount_minor,
            self.currency,
            self.refunded_minor
        )
    }
}

/// How the two differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// They have money, or may take it, for a payment that we do not know.
    Orphan,
    /// We hold money to be taken or reserved of which they know nothing.
    Missing,
    /// Both have it, with other sums.
    Amount,
    /// Both have it, and it stands otherwise.
    Status,
    /// Money has moved in their balance of which we have no record.
    Movement,
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
        }
    }
}

/// A difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Break {
    /// How they differ.
    pub kind: Kind,
    /// The provider's id.
    pub provider_payment: String,
    /// Our id, if one is known or claimed.
    pub resource: Option<String>,
    /// Its object, if the read model knows it.
    pub object: Option<String>,
    /// What we have.
    pub ours: Option<String>,
    /// What they have.
    pub theirs: Option<String>,
}

impl Break {
    /// The same for the same difference at every run.
    pub fn id(&self, provider: &str) -> String {
        format!("{}:{provider}:{}", self.kind.as_str(), self.provider_payment)
    }

    fn of(kind: Kind, entry: &Entry, ours: Option<&Ours>) -> Self {
        Self {
            kind,
            provider_payment: entry.id.clone(),
            resource: ours.map(|ours| ours.resource.clone()).or_else(|| entry.resource.clone()),
            object: ours.map(|ours| ours.object.clone()),
            ours: ours.map(Ours::face),
            theirs: Some(entry.face()),
        }
    }
}

/// Our rows, to be found by both ids.
#[derive(Default)]
pub struct Known {
    by_payment: BTreeMap<String, Ours>,
    by_resource: BTreeMap<String, Ours>,
}

impl Known {
    /// From rows in any order, each of them any number of times.
    pub fn new(rows: Vec<Ours>) -> Self {
        let mut known = Self::default();
        for row in rows {
            if let Some(id) = &row.provider_payment {
                known.by_payment.insert(id.clone(), row.clone());
            }
            known.by_resource.insert(row.resource.clone(), row);
        }
        known
    }

    /// The row with the provider's id of a payment.
    pub fn of_payment(&self, payment: &str) -> Option<&Ours> {
        self.by_payment.get(payment)
    }

    fn of(&self, entry: &Entry) -> Option<&Ours> {
        self.find(&entry.id, entry.resource.as_deref())
    }

    /// The row with the provider's id of a payment, else with ours.
    pub fn find(&self, payment: &str, resource: Option<&str>) -> Option<&Ours> {
        self.by_payment.get(payment).or_else(|| self.by_resource.get(resource?))
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &Ours> {
        self.by_resource.values()
    }
}

/// What comes of comparing one entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compared {
    /// They differ, and one of them has only just changed: it is left to the next run.
    TooYoung,
    /// Both say the same.
    Same,
    /// They differ.
    Differs(Break),
}

/// Compares an entry of theirs. What was made, or has changed, after `quiet_since_ms` (since the epoch) is too young: its
/// news may be on their way.
pub fn compare(entry: &Entry, known: &Known, quiet_since_ms: u64) -> Compared {
    let ours = known.of(entry);
    let changed_at_ms = ours.map_or(0, |ours| ours.updated_at_ms).max(entry.created_at_ms);
    match difference(entry, ours) {
        None => Compared::Same,
        Some(_) if changed_at_ms > quiet_since_ms => Compared::TooYoung,
        Some(kind) => Compared::Differs(Break::of(kind, entry, ours)),
    }
}

fn difference(entry: &Entry, ours: Option<&Ours>) -> Option<Kind> {
    let has_money = matches!(entry.standing, Standing::Taken | Standing::Held);
    let Some(ours) = ours else {
        // An unpaid payment that was made elsewhere is nobody's loss; one that names us must be known here.
        let matters = has_money || entry.resource.is_some();
        return matters.then_some(Kind::Orphan);
    };
    let is_ours = ours.provider == Provider::Stripe.as_str();
    match &ours.provider_payment {
        Some(id) if is_ours && *id == entry.id => {}
        // The answer that would tell us its id is not there yet. It may also be an earlier try, over and unpaid.
        None if is_ours => return has_money.then_some(Kind::Status),
        // An earlier try of an order is over for us: that it took money nevertheless is known nowhere.
        _ => return has_money.then_some(Kind::Orphan),
    }
    let agrees = match (ours.standing()?, entry.standing) {
        // A try that failed can stay canceled, open or unpaid over there: nothing was taken.
        (Standing::Nothing, theirs) => !matches!(theirs, Standing::Taken | Standing::Held),
        (ours, theirs) => ours == theirs,
    };
    if !agrees {
        return Some(Kind::Status);
    }
    let is_taken = entry.standing == Standing::Taken;
    let differs = ours.currency != entry.currency
        || (has_money && ours.amount_minor != entry.amount_minor)
        // What was only reserved and is given free may count as refunded over there.
        // Of several captures the rest is still held.
        || (has_money && ours.captured_minor != entry.taken_minor)
        || (is_taken && !ours.explains(entry.refunded_minor));
    differs.then_some(Kind::Amount)
}

/// Whether an entry of theirs must exist for this row.
pub fn must_exist(ours: &Ours) -> bool {
    matches!(ours.standing(), Some(Standing::Taken | Standing::Held))
}

/// The break of a row of which they know nothing.
pub fn missing(ours: &Ours) -> Break {
    Break {
        kind: Kind::Missing,
        provider_payment: ours.provider_payment.clone().unwrap_or_else(|| ours.resource.clone()),
        resource: Some(ours.resource.clone()),
        object: Some(ours.object.clone()),
        ours: Some(ours.face()),
        theirs: None,
    }
}

#[cfg(test)]
impl Ours {
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
            dispute: None,
            dispute_status: None,
            created_at_ms: 900,
            updated_at_ms: 1_100,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn theirs() -> Entry {
        Entry {
            id: "pi_1".to_owned(),
            standing: Standing::Taken,
            amount_minor: 500,
            taken_minor: 500,
            refunded_minor: 0,
            currency: "usd".to_owned(),
            created_at_ms: 1_000,
            resource: Some("pay_1".to_owned()),
        }
    }

    fn ours() -> Ours {
        Ours::captured("stripe", "pi_1", 500, "usd")
    }

    fn kind(theirs: &Entry, ours: impl IntoIterator<Item = Ours>) -> Option<Kind> {
        match compare(theirs, &Known::new(ours.into_iter().collect()), 2_000) {
            Compared::Differs(found) => Some(found.kind),
            Compared::Same => None,
            Compared::TooYoung => panic!("too young"),
        }
    }

    #[test]
    fn books_that_agree_have_no_break() {
        assert_eq!(kind(&theirs(), [ours()]), None);
        for (status, standing) in [
            ("paid", Standing::Taken),
            ("requires_capture", Standing::Held),
            ("canceled", Standing::Canceled),
            ("declined", Standing::Nothing),
            ("failed", Standing::Canceled),
            ("unpaid", Standing::Open),
            ("requires_action", Standing::Open),
            ("processing", Standing::Open),
        ] {
            let (taken, captured) = if standing == Standing::Taken { (500, 500) } else { (0, 0) };
            let ours = Ours { status: status.to_owned(), captured_minor: captured, ..ours() };
            assert_eq!(kind(&Entry { standing, taken_minor: taken, ..theirs() }, [ours]), None, "{status}");
        }
    }

    #[test]
    fn money_that_we_do_not_know_of_is_an_orphan() {
        assert_eq!(kind(&theirs(), []), Some(Kind::Orphan));
        let elsewhere = Entry { resource: None, ..theirs() };
        assert_eq!(kind(&elsewhere, []), Some(Kind::Orphan));
        assert_eq!(kind(&Entry { standing: Standing::Nothing, ..elsewhere }, []), None, "nothing was taken");
        let unpaid = Entry { standing: Standing::Nothing, ..theirs() };
        assert_eq!(kind(&unpaid, []), Some(Kind::Orphan), "it names us");
    }

    #[test]
    fn an_earlier_try_is_an_orphan_only_if_it_has_money() {
        let ours = Ours { provider_payment: Some("pi_2".to_owned()), ..ours() };
        assert_eq!(kind(&theirs(), [ours.clone()]), Some(Kind::Orphan));
        let failed = Entry { standing: Standing::Nothing, taken_minor: 0, ..theirs() };
        assert_eq!(kind(&failed, [ours]), None);
        let rerouted = |status: &str| Ours {
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
            let ours = Ours { status: status.to_owned(), captured_minor: 0, ..ours() };
            assert_eq!(kind(&theirs(), [ours]), Some(Kind::Status), "{status}");
        }
        let lost = Ours { status: "processing".to_owned(), provider_payment: None, ..ours() };
        assert_eq!(kind(&theirs(), [lost]), Some(Kind::Status), "found by what it is about");
        for standing in [Standing::Open, Standing::Held, Standing::Nothing, Standing::Canceled] {
            assert_eq!(kind(&Entry { standing, ..theirs() }, [ours()]), Some(Kind::Status), "{standing:?}");
        }
    }

    #[test]
    fn what_was_reserved_and_is_given_free_is_no_refund() {
        let freed = Entry { standing: Standing::Canceled, taken_minor: 0, refunded_minor: 500, ..theirs() };
        let canceled = Ours { status: "canceled".to_owned(), captured_minor: 0, ..ours() };
        assert_eq!(kind(&freed, [canceled]), None);
        let taken = Entry { refunded_minor: 500, ..theirs() };
        assert_eq!(kind(&taken, [ours()]), Some(Kind::Amount), "money that was taken is given back");
    }

    #[test]
    fn the_rest_of_a_capture_made_elsewhere_may_count_as_refunded() {
        let broken = |refunded, ours: &Ours| {
            kind(&Entry { taken_minor: 350, refunded_minor: refunded, ..theirs() }, [ours.clone()]).is_some()
        };
        let elsewhere = Ours { captured_minor: 350, ..ours() };
        for (refunded, expected) in
            [(0, false), (149, true), (150, false), (151, true), (350, true), (500, true)]
        {
            assert_eq!(broken(refunded, &elsewhere), expected, "nothing given back: {refunded}");
        }
        let given_back = Ours { refunded_minor: 40, refunding_minor: 5, ..elsewhere };
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
        let own = Ours { own_captures: 1, ..given_back };
        for (refunded, expected) in [(40, false), (190, true)] {
            assert_eq!(broken(refunded, &own), expected, "captured here: {refunded}");
        }
    }

    #[test]
    fn sums_that_differ_are_a_break() {
        assert_eq!(kind(&Entry { taken_minor: 499, ..theirs() }, [ours()]), Some(Kind::Amount));
        assert_eq!(kind(&Entry { currency: "eur".to_owned(), ..theirs() }, [ours()]), Some(Kind::Amount));
        assert_eq!(kind(&Entry { refunded_minor: 1, ..theirs() }, [ours()]), Some(Kind::Amount));
        assert_eq!(kind(&theirs(), [Ours { refunded_minor: 7, ..ours() }]), Some(Kind::Amount));
        let asked = Ours { refunded_minor: 7, refunding_minor: 3, ..ours() };
        for (refunded, broken) in [(6, true), (7, false), (10, false), (11, true)] {
            let entry = Entry { refunded_minor: refunded, ..theirs() };
            assert_eq!(kind(&entry, [asked.clone()]).is_some(), broken, "{refunded}");
        }
    }

    #[test]
    fn what_has_just_changed_is_left_alone() {
        let known = |ours: Ours| Known::new(vec![ours]);
        let differs = Entry { taken_minor: 1, ..theirs() };
        assert_eq!(compare(&differs, &known(ours()), 1_099), Compared::TooYoung);
        assert_eq!(compare(&differs, &known(Ours { updated_at_ms: 0, ..ours() }), 999), Compared::TooYoung);
        assert!(matches!(compare(&differs, &known(ours()), 1_100), Compared::Differs(_)));
    }

    #[test]
    fn a_break_has_the_same_id_at_every_run() {
        let Compared::Differs(found) = compare(&theirs(), &Known::default(), 2_000) else { panic!() };
        assert_eq!(found.id("stripe"), "orphan:stripe:pi_1");
        assert_eq!(missing(&ours()).id("stripe"), "missing:stripe:pi_1");
        assert_eq!(missing(&Ours { provider_payment: None, ..ours() }).id("stripe"), "missing:stripe:pay_1");
        assert!(must_exist(&ours()));
        assert!(!must_exist(&Ours { status: "declined".to_owned(), ..ours() }));
    }
}
