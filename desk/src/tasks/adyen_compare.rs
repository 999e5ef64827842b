//! Compares what Adyen's reports say of payments with ours. Pure: what differs comes out as [`Break`]s.
//!
//! A report is days late, and one that is missing is not seen: so only what the reports say is compared, and never what they do not say.
//! All lines of a payment count together, from whichever report: a capture that was taken back and made again is one of them. They are compared with a
//! payment of [their merchant account](super::adyen_merchants) alone: one that was made in another is none of theirs.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::adyen_merchants::{bare, split};
use super::adyen_report::Type;
use super::break_texts::{Amount, Done, Side, Total};
use super::compare::{Break, Kind, LocalRecord, LocalRecords};
use payments::providers::Provider;

/// A line of a report, as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Booked {
    /// `Type`, as it is written.
    pub kind: String,
    /// Adyen's id of the payment, within its merchant account.
    pub payment: String,
    /// That of what was done to it.
    pub modification: String,
    /// The payment of ours that it names.
    pub resource: Option<String>,
    /// In minor units.
    pub amount_minor: u64,
    /// In lower case.
    pub currency: String,
    /// When it was made, in ms since the epoch, where that is known.
    pub made_at_ms: Option<u64>,
}

/// A refund, as the read model has it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct LocalRefund {
    /// Our id of its payment.
    pub payment_id: String,
    /// Adyen's id of it.
    pub provider_refund: Option<String>,
    /// The status.
    pub status: String,
    /// In minor units.
    pub amount_minor: u64,
    /// In lower case.
    pub currency: String,
}

/// An amount and what of it was reversed.
#[derive(Default)]
struct Sum {
    minor: u64,
    back_minor: u64,
    currency: String,
    /// Lines in several currencies cannot be added up.
    is_mixed: bool,
}

impl Sum {
    fn add(&mut self, line: &Booked, is_back: bool) {
        if self.currency.is_empty() {
            self.currency.clone_from(&line.currency);
        }
        self.is_mixed |= self.currency != line.currency;
        let side = if is_back { &mut self.back_minor } else { &mut self.minor };
        *side = side.saturating_add(line.amount_minor);
    }

    const fn left(&self) -> u64 {
        self.minor.saturating_sub(self.back_minor)
    }

    fn is(&self, amount_minor: u64, currency: &str) -> bool {
        !self.is_mixed && self.left() == amount_minor && self.currency == currency
    }

    fn total(&self, done: Done) -> Total {
        Total {
            amount: Amount { minor: self.minor, currency: self.currency.clone() },
            done,
            back_minor: self.back_minor,
            is_mixed: self.is_mixed,
        }
    }

    fn describe(&self, done: Done) -> String {
        Side::Reported(vec![self.total(done)]).to_string()
    }
}

/// All that the reports say of one payment.
#[derive(Default)]
struct Reported {
    resource: Option<String>,
    settled: Option<Sum>,
    /// By Adyen's id of the refund.
    refunds: BTreeMap<String, Sum>,
    /// By Adyen's id of the dispute; of each, whether it is a second one.
    disputes: BTreeMap<String, (Sum, bool)>,
}

impl Reported {
    fn add(&mut self, line: &Booked) {
        self.resource = self.resource.take().or_else(|| line.resource.clone());
        let id = || line.modification.clone();
        match Type::of(&line.kind) {
            Type::Settled => self.settled.get_or_insert_default().add(line, false),
            Type::SettledReversed => self.settled.get_or_insert_default().add(line, true),
            Type::Refunded => self.refunds.entry(id()).or_default().add(line, false),
            Type::RefundedReversed => self.refunds.entry(id()).or_default().add(line, true),
            Type::Chargeback => self.disputes.entry(id()).or_default().0.add(line, false),
            Type::SecondChargeback => {
                let (sum, is_second) = self.disputes.entry(id()).or_default();
                sum.add(line, false);
                *is_second = true;
            }
            Type::ChargebackReversed => self.disputes.entry(id()).or_default().0.add(line, true),
            Type::Costs | Type::Unknown => {}
        }
    }

    fn describe(&self) -> String {
        let settled = self.settled.iter().map(|sum| sum.total(Done::Settled));
        let refunds = self.refunds.values().map(|sum| sum.total(Done::Refunded));
        let disputes = self.disputes.values().map(|(sum, _)| sum.total(Done::ChargedBack));
        Side::Reported(settled.chain(refunds).chain(disputes).collect()).to_string()
    }

    /// How much of the payment's money we still have, according to the reports.
    fn kept_minor(&self) -> u64 {
        let refunded: u64 = self.refunds.values().map(Sum::left).sum();
        self.settled.as_ref().map_or(0, Sum::left).saturating_sub(refunded)
    }
}

/// Compares all lines that there are of some payments.
pub fn compare(lines: &[Booked], known: &LocalRecords, refunds: &[LocalRefund]) -> Vec<Break> {
    let mut payments: BTreeMap<&str, Reported> = BTreeMap::new();
    for line in lines {
        payments.entry(&line.payment).or_default().add(line);
    }
    let mut breaks = Vec::new();
    for (id, reported) in &payments {
        let found = |kind, ours: Option<&LocalRecord>| Break {
            kind,
            provider_payment: (*id).to_owned(),
            resource: ours.map(|ours| ours.resource.clone()).or_else(|| reported.resource.clone()),
            object: ours.map(|ours| ours.object.clone()),
            ours: ours.map(LocalRecord::describe),
            theirs: Some(reported.describe()),
        };
        let (merchant, psp) = split(id);
        let Some(ours) = known.find(psp, reported.resource.as_deref()) else {
            breaks.push(found(Kind::Orphan, None));
            continue;
        };
        if ours.merchant_account.as_deref().unwrap_or_default() != merchant {
            // Whatever the lines name: the payment, and its object, are none of this merchant account's.
            let is_it = ours.provider_payment.as_deref() == Some(psp);
            if is_it || reported.kept_minor() > 0 {
                let said = "a payment in another merchant account".to_owned();
                breaks.push(Break { resource: None, ours: Some(said), ..found(Kind::Orphan, None) });
            }
            continue;
        }
        match &ours.provider_payment {
            Some(own) if own == psp && ours.provider == Provider::Adyen.as_str() => {}
            // We have not received its id yet.
            None if ours.provider == Provider::Adyen.as_str() => {
                breaks.push(found(Kind::Status, Some(ours)));
                continue;
            }
            // An earlier try: its money should have been refunded.
            _ => {
                if reported.kept_minor() > 0 {
                    breaks.push(found(Kind::Orphan, Some(ours)));
                }
                continue;
            }
        }
        breaks.extend(settled(reported, ours).map(|kind| found(kind, Some(ours))));
        let own = refunds.iter().filter(|refund| refund.payment_id == ours.resource).collect::<Vec<_>>();
        breaks.extend(refunded(reported, ours, &own));
        breaks.extend(disputed(reported, ours));
    }
    breaks
}

fn settled(reported: &Reported, ours: &LocalRecord) -> Option<Kind> {
    let sum = reported.settled.as_ref()?;
    match (sum.left(), ours.captured_minor) {
        (0, 0) => None,
        (0, _) | (_, 0) => Some(Kind::Status),
        (_, captured) => (!sum.is(captured, &ours.currency)).then_some(Kind::Amount),
    }
}

fn refunded(reported: &Reported, ours: &LocalRecord, own: &[&LocalRefund]) -> Vec<Break> {
    let is_known =
        |id: &str| own.iter().find(|refund| refund.provider_refund.as_deref() == Some(bare(id))).copied();
    let succeeded: u64 =
        own.iter().filter(|refund| refund.status == "succeeded").map(|refund| refund.amount_minor).sum();
    // A refund made elsewhere, for example in the Customer Area, has no row here: we know only the sum of those.
    let elsewhere = ours.refunded_minor.saturating_sub(succeeded);
    let unknown: u64 =
        reported.refunds.iter().filter(|(id, _)| is_known(id).is_none()).map(|(_, sum)| sum.left()).sum();
    let mut breaks = Vec::new();
    for (id, sum) in &reported.refunds {
        let (kind, described) = match is_known(id) {
            None if sum.left() == 0 || unknown <= elsewhere => continue,
            None => (Kind::Movement, ours.describe()),
            Some(refund) => {
                let is_given = refund.status == "succeeded";
                let kind = match sum.left() {
                    0 if is_given => Kind::Status,
                    0 => continue,
                    _ if !is_given => Kind::Status,
                    _ if !sum.is(refund.amount_minor, &refund.currency) => Kind::Amount,
                    _ => continue,
                };
                let amount = Amount { minor: refund.amount_minor, currency: refund.currency.clone() };
                let status = refund.status.clone();
                (kind, Side::Amount { status, amount, done: Some(Done::Refunded) }.to_string())
            }
        };
        breaks.push(of(kind, id, ours, described, sum.describe(Done::Refunded)));
    }
    breaks
}

fn disputed(reported: &Reported, ours: &LocalRecord) -> Vec<Break> {
    // What comes after the first chargeback can stand under another id, and one that is known by its end alone has its payment's.
    let is_unknown = |(id, (sum, is_second)): &(&String, &(Sum, bool))| match &ours.dispute {
        Some(known) if Some(known) == ours.provider_payment.as_ref() => false,
        Some(_) => !ours.has_dispute(bare(id)) && !is_second && sum.minor > 0,
        None => true,
    };
    // Of several disputes only their sum is known.
    let is_alone = ours.disputes.as_ref().is_none_or(|all| !all.contains(' '));
    let is_other = |id: &str, sum: &Sum| {
        is_alone
            && ours.dispute.as_deref() == Some(bare(id))
            && ours.dispute_withdrawn == Some(1)
            && sum.left() > 0
            && !sum.is(ours.dispute_minor.unwrap_or(0), &ours.currency)
    };
    let each = reported.disputes.iter().filter_map(|dispute| {
        let (id, (sum, _)) = dispute;
        let kind = match is_unknown(&dispute) {
            true => Kind::Movement,
            false if is_other(id, sum) => Kind::Amount,
            false => return None,
        };
        Some(of(kind, id, ours, ours.describe(), sum.describe(Done::ChargedBack)))
    });
    each.collect()
}

fn of(kind: Kind, id: &str, ours: &LocalRecord, described: String, theirs: String) -> Break {
    Break {
        kind,
        provider_payment: id.to_owned(),
        resource: Some(ours.resource.clone()),
        object: Some(ours.object.clone()),
        ours: Some(described),
        theirs: Some(theirs),
    }
}

#[cfg(test)]
mod tests {
    use std::slice::from_ref;

    use super::*;
    use crate::tasks::adyen_merchants;

    fn line(kind: &str, modification: &str, amount_minor: u64) -> Booked {
        Booked {
            kind: kind.to_owned(),
            payment: "PSP1".to_owned(),
            modification: modification.to_owned(),
            resource: Some("pay_1".to_owned()),
            amount_minor,
            currency: "eur".to_owned(),
            made_at_ms: None,
        }
    }

    fn ours() -> LocalRecord {
        LocalRecord::captured("adyen", "PSP1", 2500, "eur")
    }

    fn refund(status: &str, amount_minor: u64) -> LocalRefund {
        LocalRefund {
            payment_id: "pay_1".to_owned(),
            provider_refund: Some("REF1".to_owned()),
            status: status.to_owned(),
            amount_minor,
            currency: "eur".to_owned(),
        }
    }

    fn kinds(lines: &[Booked], ours: LocalRecord, refunds: &[LocalRefund]) -> Vec<(Kind, String)> {
        let found = compare(lines, &LocalRecords::new(vec![ours]), refunds);
        found.into_iter().map(|found| (found.kind, found.provider_payment)).collect()
    }

    fn one(kind: Kind, id: &str) -> Vec<(Kind, String)> {
        vec![(kind, id.to_owned())]
    }

    #[test]
    fn books_that_agree_have_no_break() {
        let settled = line("Settled", "CAP1", 2500);
        assert_eq!(kinds(from_ref(&settled), ours(), &[]), []);
        let given_back = LocalRecord { refunded_minor: 700, ..ours() };
        let lines = [settled.clone(), line("Refunded", "REF1", 700)];
        assert_eq!(kinds(&lines, given_back.clone(), &[refund("succeeded", 700)]), []);
        assert_eq!(kinds(from_ref(&settled), given_back, &[refund("succeeded", 700)]), [], "it comes later");
        let disputed =
            LocalRecord { dispute: Some("DIS1".to_owned()), status: "disputed".to_owned(), ..ours() };
        assert_eq!(kinds(&[settled, line("Chargeback", "DIS1", 2500)], disputed, &[]), []);
    }

    #[test]
    fn money_of_a_payment_that_is_not_ours_is_an_orphan() {
        let settled = line("Settled", "CAP1", 2500);
        let found = compare(from_ref(&settled), &LocalRecords::default(), &[]);
        assert_eq!(found[0].kind, Kind::Orphan);
        assert_eq!(found[0].resource.as_deref(), Some("pay_1"), "its object can be asked all the same");
        let later = LocalRecord { provider_payment: Some("PSP2".to_owned()), ..ours() };
        assert_eq!(
            kinds(from_ref(&settled), later.clone(), &[]),
            one(Kind::Orphan, "PSP1"),
            "an earlier try"
        );
        let given_back = [settled, line("Refunded", "REF1", 2500)];
        assert_eq!(kinds(&given_back, later, &[]), []);
    }

    #[test]
    fn what_is_settled_must_be_captured_here_and_as_much() {
        let settled = [line("Settled", "CAP1", 2500)];
        for status in ["requires_capture", "declined", "canceled", "capture_failed", "processing"] {
            let open = LocalRecord { status: status.to_owned(), captured_minor: 0, ..ours() };
            assert_eq!(kinds(&settled, open, &[]), one(Kind::Status, "PSP1"), "{status}");
        }
        let nameless = LocalRecord { provider_payment: None, captured_minor: 0, ..ours() };
        assert_eq!(kinds(&settled, nameless, &[]), one(Kind::Status, "PSP1"));
        assert_eq!(
            kinds(&settled, LocalRecord { captured_minor: 2400, ..ours() }, &[]),
            one(Kind::Amount, "PSP1")
        );
        assert_eq!(
            kinds(&settled, LocalRecord { currency: "usd".to_owned(), ..ours() }, &[]),
            one(Kind::Amount, "PSP1")
        );
        let twice = [settled[0].clone(), line("Settled", "CAP2", 2500)];
        assert_eq!(kinds(&twice, ours(), &[]), one(Kind::Amount, "PSP1"), "taken twice");
    }

    #[test]
    fn what_was_taken_back_and_made_again_is_taken_once() {
        let again = [
            line("Settled", "CAP1", 2500),
            line("SettledReversed", "CAP1", 2500),
            line("Settled", "CAP1", 2500),
        ];
        assert_eq!(kinds(&again, ours(), &[]), []);
        assert_eq!(kinds(&again[..2], ours(), &[]), one(Kind::Status, "PSP1"));
        let failed = LocalRecord { captured_minor: 0, status: "capture_failed".to_owned(), ..ours() };
        assert_eq!(kinds(&again[..2], failed, &[]), []);
    }

    #[test]
    fn a_refund_must_be_known_and_of_as_much() {
        let lines = [line("Refunded", "REF1", 700)];
        let given_back = LocalRecord { refunded_minor: 700, ..ours() };
        assert_eq!(kinds(&lines, ours(), &[]), one(Kind::Movement, "REF1"));
        assert_eq!(kinds(&lines, given_back.clone(), &[]), [], "given back by others");
        let other = LocalRecord { refunded_minor: 600, ..ours() };
        assert_eq!(kinds(&lines, other.clone(), &[refund("succeeded", 600)]), one(Kind::Amount, "REF1"));
        assert_eq!(
            kinds(&lines, other, &[]),
            one(Kind::Movement, "REF1"),
            "more than others have given back"
        );
        for status in ["failed", "pending"] {
            assert_eq!(kinds(&lines, ours(), &[refund(status, 700)]), one(Kind::Status, "REF1"), "{status}");
        }
    }

    #[test]
    fn a_refund_that_came_back_has_not_succeeded() {
        let lines = [line("Refunded", "REF1", 700), line("RefundedReversed", "REF1", 700)];
        let given_back = LocalRecord { refunded_minor: 700, ..ours() };
        assert_eq!(kinds(&lines, given_back.clone(), &[refund("succeeded", 700)]), one(Kind::Status, "REF1"));
        assert_eq!(kinds(&lines[1..], given_back, &[refund("succeeded", 700)]), one(Kind::Status, "REF1"));
        assert_eq!(kinds(&lines, ours(), &[refund("failed", 700)]), []);
        assert_eq!(kinds(&lines, ours(), &[]), []);
    }

    #[test]
    fn a_chargeback_must_be_known_as_a_dispute() {
        let lines = [line("Chargeback", "DIS1", 2500)];
        assert_eq!(kinds(&lines, ours(), &[]), one(Kind::Movement, "DIS1"));
        let other = LocalRecord { dispute: Some("DIS2".to_owned()), ..ours() };
        assert_eq!(kinds(&lines, other.clone(), &[]), one(Kind::Movement, "DIS1"));
        assert_eq!(kinds(&[line("SecondChargeback", "DIS1", 2500)], other, &[]), [], "of the dispute before");
        let both = [line("Chargeback", "DIS1", 1000), line("Chargeback", "DIS2", 1500)];
        let two = LocalRecord {
            dispute: Some("DIS2".to_owned()),
            disputes: Some("DIS2 DIS1".to_owned()),
            ..ours()
        };
        assert_eq!(kinds(&both, two.clone(), &[]), [], "one of them is shown");
        let one_more = [line("Chargeback", "DIS", 1000)];
        assert_eq!(kinds(&one_more, two, &[]), one(Kind::Movement, "DIS"));
        let reversed = line("ChargebackReversed", "REV1", 2500);
        let known = LocalRecord { dispute: Some("DIS1".to_owned()), ..ours() };
        assert_eq!(kinds(&[lines[0].clone(), reversed], known, &[]), [], "under an id of its own");
        let nameless = LocalRecord { dispute: Some("PSP1".to_owned()), ..ours() };
        assert_eq!(kinds(&lines, nameless, &[]), [], "known by its end alone");
        let won = [lines[0].clone(), line("ChargebackReversed", "DIS1", 2500)];
        assert_eq!(kinds(&won, ours(), &[]), one(Kind::Movement, "DIS1"), "nobody here has heard of it");
    }

    #[test]
    fn what_a_bank_has_withdrawn_is_compared_with_the_dispute() {
        let lines = [line("Settled", "CAP1", 2500), line("Chargeback", "DIS1", 1800)];
        let known = |dispute_minor, dispute_withdrawn| LocalRecord {
            dispute: Some("DIS1".to_owned()),
            dispute_minor: Some(dispute_minor),
            dispute_withdrawn: Some(dispute_withdrawn),
            ..ours()
        };
        assert_eq!(kinds(&lines, known(1800, 1), &[]), []);
        assert_eq!(kinds(&lines, known(2500, 1), &[]), one(Kind::Amount, "DIS1"));
        assert_eq!(kinds(&lines, known(2500, 0), &[]), [], "it is won here, and stands in a later report");
        let dollars = Booked { currency: "usd".to_owned(), ..lines[1].clone() };
        assert_eq!(kinds(&[lines[0].clone(), dollars], known(1800, 1), &[]), one(Kind::Amount, "DIS1"));
        let two = LocalRecord { disputes: Some("DIS1 DIS2".to_owned()), ..known(2500, 1) };
        assert_eq!(kinds(&lines, two, &[]), [], "of several only the sum is known");
    }

    /// Of another merchant account than the deployment's.
    fn within(merchant: &str, line: &Booked) -> Booked {
        let [payment, modification] =
            [&line.payment, &line.modification].map(|id| adyen_merchants::within(merchant, id));
        Booked { payment, modification, ..line.clone() }
    }

    fn ours_in(merchant: &str) -> LocalRecord {
        LocalRecord { merchant_account: Some(merchant.to_owned()), ..ours() }
    }

    #[test]
    fn an_accounts_own_merchant_account_is_compared_as_the_deployments() {
        let lines =
            [line("Settled", "CAP1", 2500), line("Refunded", "REF1", 700), line("Chargeback", "DIS1", 1800)];
        let own = lines.each_ref().map(|line| within("Shop_A", line));
        let known = |dispute: &str, refunded_minor| LocalRecord {
            refunded_minor,
            dispute: Some(dispute.to_owned()),
            ..ours_in("Shop_A")
        };
        assert_eq!(kinds(&own, known("DIS1", 700), &[refund("succeeded", 700)]), []);
        assert_eq!(
            kinds(&own, known("DIS2", 600), &[refund("succeeded", 600)]),
            [(Kind::Amount, "Shop_A/REF1".to_owned()), (Kind::Movement, "Shop_A/DIS1".to_owned())]
        );
        let other = LocalRecord { captured_minor: 1, ..ours_in("Shop_A") };
        let found = compare(&own[..1], &LocalRecords::new(vec![other]), &[]);
        assert_eq!(found[0].id("adyen"), "amount:adyen:Shop_A/PSP1");
        assert_eq!(found[0].resource.as_deref(), Some("pay_1"));
    }

    #[test]
    fn lines_of_one_merchant_account_say_nothing_of_anothers_payment() {
        let settled = line("Settled", "CAP1", 2500);
        for (merchant, record) in [("Shop_B", ours_in("Shop_A")), ("Shop_B", ours()), ("", ours_in("Shop_A"))]
        {
            let told = within(merchant, &settled);
            let nameless = LocalRecord { provider_payment: None, ..record.clone() };
            for record in [record.clone(), nameless] {
                let found = compare(from_ref(&told), &LocalRecords::new(vec![record]), &[]);
                let [found] = &found[..] else { panic!("{found:?}") };
                assert_eq!((found.kind, &found.resource, &found.object), (Kind::Orphan, &None, &None));
            }
            // An earlier try that was given back, and one of which nothing was.
            let back = [told, within(merchant, &line("Refunded", "REF1", 2500))];
            let later = LocalRecord { provider_payment: Some("PSP2".to_owned()), ..record };
            assert_eq!(kinds(&back, later.clone(), &[]), []);
            assert_eq!(kinds(&back[..1], later, &[]).len(), 1);
        }
        let both = [within("Shop_A", &settled), within("Shop_B", &line("Settled", "CAP1", 1))];
        assert_eq!(
            kinds(&both, ours_in("Shop_A"), &[]),
            one(Kind::Orphan, "Shop_B/PSP1"),
            "they are not added"
        );
    }

    #[test]
    fn a_break_has_an_id_of_its_own() {
        let found = compare(&[line("Settled", "CAP1", 2500)], &LocalRecords::default(), &[]);
        assert_eq!(found[0].id("adyen"), "orphan:adyen:PSP1");
        assert_eq!(found[0].theirs.as_deref(), Some("2500 eur settled"));
    }
}
