//! What has moved the balance at Stripe: pages of its balance transactions as plain data, and which of them we have no record of.
//! <https://docs.stripe.com/api/balance_transactions/list>
//!
//! A movement is in the currency of settlement, after exchange. So it is matched by its source, and amounts are compared on that:
//! the charge or the refund, as the customer sees it.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::break_texts::{Amount, Side};
use super::changes::is_left_of;
use super::compare::{Break, Kind, LocalRecords};
use super::page::{Each, PageEnd, Unread, each, entry_path};
use once::call::FrozenRequest;
use payments::payment::Dispute;
use payments::providers::{Provider, stripe};

/// The list's query parameters besides the time range.
pub(super) const fn query() -> [(&'static str, &'static str); 1] {
    [("expand[]", "data.source")]
}

/// Asks for one.
pub fn movement_request(id: &str) -> FrozenRequest {
    let path = entry_path("/v1/balance_transactions", id);
    FrozenRequest::new(format!("{path}?expand%5B%5D=source"), String::new())
}

/// A movement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Movement {
    /// The provider's id.
    pub id: String,
    /// The provider's type of it.
    pub kind: String,
    /// What it adds to the balance, in minor units of [`currency`](Self::currency).
    pub settled_minor: i64,
    /// What is settled in.
    pub currency: String,
    /// What it comes from.
    pub source: Source,
}

/// What a movement comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A customer has paid.
    Charge(Sum),
    /// A customer was given money back.
    Refund(Sum),
    /// That money came back.
    RefundFailure(Sum),
    /// A bank has taken money back for its customer, or has given it back.
    Dispute(Sum),
    /// A customer's money, but the details are missing.
    Unsaid,
    /// Not a customer's money: payouts, fees and so on.
    Other,
}

/// What a charge, a refund or a dispute says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sum {
    /// The provider's id of it.
    pub id: String,
    /// The provider's id of the payment.
    pub payment: Option<String>,
    /// In minor units of the customer's currency; for a charge, what was captured.
    pub amount_minor: u64,
    /// In lower case.
    pub currency: String,
    /// Our id of the payment, where it has it.
    pub resource: Option<String>,
    /// When the payment was charged, in ms since the epoch, if it is a charge.
    pub charged_at_ms: Option<u64>,
    /// How the dispute stands, if it is one and nothing of it has moved since.
    pub dispute: Option<Dispute>,
}

/// A refund of ours, as the read model has it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct LocalRefund {
    /// The provider's id of it.
    pub provider_refund: String,
    /// The status.
    pub status: String,
    /// In minor units.
    pub amount_minor: u64,
    /// In lower case.
    pub currency: String,
}

/// Our refunds by the provider's ids.
#[derive(Default)]
pub struct Refunds(BTreeMap<String, LocalRefund>);

impl Refunds {
    /// From rows in any order.
    pub fn new(rows: Vec<LocalRefund>) -> Self {
        Self(rows.into_iter().map(|row| (row.provider_refund.clone(), row)).collect())
    }
}

/// The result of looking for a movement in our records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Matched {
    /// We have a record of it, or it is not a customer's money.
    Recorded,
    /// We have no record, or another amount: fetch its payment and compare that.
    FetchPayment(String),
    /// We have no record of it.
    Unrecorded,
}

impl Movement {
    /// What its source says.
    pub const fn sum(&self) -> Option<&Sum> {
        match &self.source {
            Source::Charge(sum) | Source::Refund(sum) | Source::RefundFailure(sum) | Source::Dispute(sum) => {
                Some(sum)
            }
            Source::Unsaid | Source::Other => None,
        }
    }

    /// Stripe's id of the payment whose money it brought.
    pub fn charged(&self) -> Option<&str> {
        match &self.source {
            Source::Charge(sum) => sum.payment.as_deref(),
            Source::Refund(_)
            | Source::RefundFailure(_)
            | Source::Dispute(_)
            | Source::Unsaid
            | Source::Other => None,
        }
    }

    /// Whether we have a record of it.
    pub fn matched(&self, known: &LocalRecords, refunds: &Refunds) -> Matched {
        let ours = |sum: &Sum| sum.payment.as_deref().and_then(|payment| known.by_provider_id(payment));
        let look = |sum: &Sum| sum.payment.clone().map_or(Matched::Unrecorded, Matched::FetchPayment);
        let of_refund = |sum: &Sum, statuses: &[&str]| {
            let is_it = |ours: &&LocalRefund| {
                statuses.contains(&ours.status.as_str())
                    && (ours.amount_minor, ours.currency.as_str())
                        == (sum.amount_minor, sum.currency.as_str())
            };
            refunds.0.get(&sum.id).filter(is_it).map_or_else(|| look(sum), |_| Matched::Recorded)
        };
        match &self.source {
            Source::Other => Matched::Recorded,
            Source::Unsaid => Matched::Unrecorded,
            Source::Charge(sum) => match ours(sum) {
                Some(ours)
                    if (ours.captured_minor, ours.currency.as_str())
                        == (sum.amount_minor, sum.currency.as_str()) =>
                {
                    Matched::Recorded
                }
                _ => look(sum),
            },
            // A refund that failed later did move money first.
            Source::Refund(sum) => of_refund(sum, &["pending", "succeeded", "failed"]),
            Source::RefundFailure(sum) => of_refund(sum, &["failed"]),
            Source::Dispute(sum) => match ours(sum) {
                Some(ours)
                    if ours.dispute.as_deref() == Some(sum.id.as_str())
                        && sum.dispute.as_ref().is_none_or(|now| is_left_of(now, ours)) =>
                {
                    Matched::Recorded
                }
                _ => Matched::Unrecorded,
            },
        }
    }

    /// The break for a movement that we have no record of.
    pub fn unknown(&self, known: &LocalRecords) -> Break {
        let sum = self.sum();
        let ours =
            sum.and_then(|sum| sum.payment.as_deref()).and_then(|payment| known.by_provider_id(payment));
        let source = sum.map(|sum| {
            let amount = Amount { minor: sum.amount_minor, currency: sum.currency.clone() };
            (sum.id.clone(), sum.payment.clone(), amount)
        });
        let theirs = Side::Movement {
            kind: self.kind.replace('_', " "),
            is_debit: self.settled_minor < 0,
            settled: Amount { minor: self.settled_minor.unsigned_abs(), currency: self.currency.clone() },
            source,
        };
        Break {
            kind: Kind::Movement,
            provider_payment: self.id.clone(),
            resource: ours.map(|ours| ours.resource.clone()),
            object: ours.map(|ours| ours.object.clone()),
            ours: ours.map(super::compare::LocalRecord::describe),
            theirs: Some(theirs.to_string()),
        }
    }
}

/// A page of movements, the newest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The movements.
    pub movements: Vec<Movement>,
    /// Those that cannot be read, by their ids; each with why.
    pub unread: Vec<Unread>,
    /// Where it ends.
    pub end: PageEnd,
}

/// Reads a page.
pub fn read_page(body: &str) -> Result<Page, String> {
    #[derive(Deserialize)]
    struct List {
        data: Vec<Row>,
        has_more: bool,
    }
    let Ok(list) = serde_json::from_str::<List>(body) else {
        let Each { read, unread, end } = each::<Row>(body)?;
        return Ok(Page { movements: read.into_iter().map(Row::movement).collect(), unread, end });
    };
    let last = list.data.last().map(|row| (row.id.as_str(), row.created));
    let end = PageEnd::new(last, list.has_more);
    Ok(Page { movements: list.data.into_iter().map(Row::movement).collect(), unread: Vec::new(), end })
}

/// Reads one.
pub fn read_movement(body: &str) -> Result<Movement, String> {
    serde_json::from_str::<Row>(body).map(Row::movement).map_err(|error| error.to_string())
}

#[derive(Deserialize)]
struct Row {
    id: String,
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    reporting_category: String,
    amount: i64,
    created: Option<u64>,
    currency: String,
    #[serde(default)]
    source: Value,
}

impl Row {
    fn movement(self) -> Movement {
        // Type and category are two divisions: of what is an `adjustment` the category says what was adjusted.
        // <https://docs.stripe.com/reports/reporting-categories>
        let is_of_a_dispute = matches!(self.reporting_category.as_str(), "dispute" | "dispute_reversal");
        let is_failed_refund = self.reporting_category == "refund_failure";
        let wrap: Option<fn(Sum) -> Source> = match self.kind.as_str() {
            "charge" | "payment" => Some(Source::Charge),
            "refund" | "payment_refund" => Some(Source::Refund),
            "refund_failure" | "payment_failure_refund" => Some(Source::RefundFailure),
            "adjustment" if is_failed_refund => Some(Source::RefundFailure),
            "adjustment" | "payment_reversal" if is_of_a_dispute => Some(Source::Dispute),
            _ => None,
        };
        let source = match wrap {
            None => Source::Other,
            Some(wrap) => sum(&self.source, &self.id).map_or(Source::Unsaid, wrap),
        };
        Movement { id: self.id, kind: self.kind, settled_minor: self.amount, currency: self.currency, source }
    }
}

/// The amounts of a charge, a refund or a dispute that has moved. `None` if the list does not have all of them.
fn sum(source: &Value, movement: &str) -> Option<Sum> {
    let text = |name: &str| source.get(name).and_then(Value::as_str).map(str::to_owned);
    let intent = source.get("payment_intent");
    let expanded = || intent.and_then(|intent| intent.get("id")).and_then(Value::as_str).map(str::to_owned);
    let amount = source.get("amount_captured").or_else(|| source.get("amount"));
    // A charge has what its payment has, and our refunds name the payment.
    let is_charge = source.get("object").and_then(Value::as_str) == Some("charge");
    let ours = source.get("metadata").and_then(|all| all.get(if is_charge { "resource" } else { "payment" }));
    let created_s = source.get("created").and_then(Value::as_u64).filter(|_| is_charge);
    Some(Sum {
        id: text("id")?,
        payment: text("payment_intent").or_else(expanded),
        amount_minor: amount.and_then(Value::as_u64)?,
        currency: text("currency")?,
        resource: ours.and_then(Value::as_str).map(str::to_owned),
        charged_at_ms: created_s.map(|at_s| at_s.saturating_mul(1000)),
        dispute: (newest_of_dispute(source) == Some(movement))
            .then(|| stripe::read_dispute(source))
            .flatten(),
    })
}

/// The newest movement of a dispute: what an older one left is not how the dispute stands.
fn newest_of_dispute(source: &Value) -> Option<&str> {
    let all = source.get("balance_transactions").and_then(Value::as_array)?;
    let newest = all.iter().max_by_key(|moved| moved.get("created").and_then(Value::as_u64))?;
    newest.get("id").and_then(Value::as_str)
}

impl Break {
    /// The movement's id, from the id of its break.
    pub fn movement_of(break_id: &str) -> Option<&str> {
        let prefix = format!("{}:{}:", Kind::Movement.as_str(), Provider::Stripe.as_str());
        break_id.strip_prefix(&prefix)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    #[test]
    fn a_movement_that_cannot_be_read_leaves_the_others_of_its_page() {
        let row = |id: &str, amount: Value| json!({ "id": id, "type": "charge", "amount": amount, "currency": "usd", "created": 7, "source": null });
        let data = [row("txn_1", json!(5)), row("txn_2", Value::Null)];
        let page = read_page(&json!({ "data": data, "has_more": false }).to_string()).unwrap();
        assert_eq!((page.movements.len(), page.movements[0].id.as_str()), (1, "txn_1"));
        assert_eq!((page.unread.len(), page.unread[0].id.as_str()), (1, "txn_2"));
        assert_eq!(page.end.last.as_deref(), Some("txn_2"));
    }

    use super::*;
    use crate::tasks::compare::LocalRecord;

    fn ours() -> LocalRecord {
        LocalRecord::captured("stripe", "pi_1", 1_000, "eur")
    }

    fn row(kind: &str, category: &str, source: &Value) -> Movement {
        let row = json!({
            "id": "txn_1", "type": kind, "reporting_category": category, "amount": 1_080, "currency": "usd", "source": source,
        });
        let page = read_page(&json!({ "data": [row], "has_more": false }).to_string()).unwrap();
        page.movements[0].clone()
    }

    fn charge(captured: u64) -> Movement {
        let source = json!({
            "id": "ch_1", "object": "charge", "payment_intent": "pi_1", "amount": 1_500, "amount_captured": captured,
            "currency": "eur",
        });
        row("charge", "charge", &source)
    }

    fn refund(kind: &str) -> Movement {
        let source = json!({ "id": "re_1", "object": "refund", "payment_intent": "pi_1", "amount": 300, "currency": "eur" });
        row(kind, kind, &source)
    }

    fn refunds(status: &str, amount_minor: u64) -> Refunds {
        Refunds::new(vec![LocalRefund {
            provider_refund: "re_1".to_owned(),
            status: status.to_owned(),
            amount_minor,
            currency: "eur".to_owned(),
        }])
    }

    fn matched(movement: &Movement, ours: Option<LocalRecord>, refunds: &Refunds) -> Matched {
        movement.matched(&LocalRecords::new(ours.into_iter().collect()), refunds)
    }

    #[test]
    fn a_charge_is_matched_by_what_the_customer_paid_and_not_by_what_was_settled() {
        let none = Refunds::default();
        let look = || Matched::FetchPayment("pi_1".to_owned());
        assert_eq!(matched(&charge(1_000), Some(ours()), &none), Matched::Recorded, "1,080 usd were settled");
        assert_eq!(matched(&charge(1_080), Some(ours()), &none), look());
        assert_eq!(
            matched(&charge(1_000), Some(LocalRecord { currency: "usd".to_owned(), ..ours() }), &none),
            look()
        );
        assert_eq!(matched(&charge(1_000), None, &none), look());
        let elsewhere = json!({ "id": "ch_1", "payment_intent": null, "amount": 5, "currency": "eur" });
        assert_eq!(matched(&row("charge", "charge", &elsewhere), Some(ours()), &none), Matched::Unrecorded);
        assert_eq!(
            matched(&row("charge", "charge", &json!("ch_1")), Some(ours()), &none),
            Matched::Unrecorded
        );
    }

    #[test]
    fn a_refund_is_matched_by_its_id_and_one_that_came_back_only_if_we_know_that() {
        let look = Matched::FetchPayment("pi_1".to_owned());
        for (kind, status, amount, expected) in [
            ("refund", "pending", 300, Matched::Recorded),
            ("refund", "succeeded", 300, Matched::Recorded),
            ("refund", "failed", 300, Matched::Recorded),
            ("refund", "succeeded", 301, look.clone()),
            ("refund_failure", "failed", 300, Matched::Recorded),
            ("refund_failure", "succeeded", 300, look.clone()),
            ("payment_refund", "succeeded", 300, Matched::Recorded),
        ] {
            let found = matched(&refund(kind), Some(ours()), &refunds(status, amount));
            assert_eq!(found, expected, "{kind} {status} {amount}");
        }
        assert_eq!(matched(&refund("refund"), Some(ours()), &Refunds::default()), look);
        let source = json!({ "id": "re_1", "object": "refund", "payment_intent": "pi_1", "amount": 300, "currency": "eur" });
        let failed = row("adjustment", "refund_failure", &source);
        assert_eq!(matched(&failed, Some(ours()), &refunds("succeeded", 300)), look);
        assert_eq!(matched(&failed, Some(ours()), &refunds("failed", 300)), Matched::Recorded);
        assert_eq!(row("adjustment", "other_adjustment", &source).source, Source::Other, "control");
    }

    #[test]
    fn a_dispute_is_matched_once_its_payment_knows_of_it() {
        let source = json!({ "id": "dp_1", "payment_intent": "pi_1", "amount": 1_000, "currency": "eur" });
        let movement = row("adjustment", "dispute", &source);
        let none = Refunds::default();
        assert_eq!(matched(&movement, Some(ours()), &none), Matched::Unrecorded);
        let told = LocalRecord { dispute: Some("dp_1".to_owned()), ..ours() };
        assert_eq!(matched(&movement, Some(told), &none), Matched::Recorded);
        let found = movement.unknown(&LocalRecords::new(vec![ours()]));
        assert_eq!(found.id("stripe"), "movement:stripe:txn_1");
        assert_eq!(Break::movement_of("movement:stripe:txn_1"), Some("txn_1"));
        assert_eq!((found.resource.as_deref(), found.object.as_deref()), (Some("pay_1"), Some("ab")));
        assert_eq!(
            found.theirs.as_deref(),
            Some("adjustment: 1080 usd in the balance (dp_1 of pi_1, 1000 eur)")
        );
    }

    /// The payment of a dispute of 1,000 that it shows with so much of it withdrawn.
    fn shows(dispute_minor: u64, dispute_withdrawn: u8) -> Option<LocalRecord> {
        Some(LocalRecord {
            dispute: Some("dp_1".to_owned()),
            dispute_status: Some("lost".to_owned()),
            dispute_minor: Some(dispute_minor),
            dispute_withdrawn: Some(dispute_withdrawn),
            ..ours()
        })
    }

    #[test]
    fn what_came_back_of_a_dispute_is_matched_once_its_payment_shows_that() {
        // A euro is settled as two dollars.
        let dispute = |status: &str, moved: &[(&str, i64, u64)]| {
            let each = |&(id, amount, created): &(&str, i64, u64)| json!({ "id": id, "amount": amount, "created": created });
            let source = json!({
                "id": "dp_1", "object": "dispute", "payment_intent": "pi_1", "amount": 1_000, "currency": "eur", "status": status,
                "balance_transactions": moved.iter().map(each).collect::<Vec<_>>(),
            });
            row("adjustment", "dispute", &source)
        };
        let none = Refunds::default();
        let taken = dispute("lost", &[("txn_1", -2_000, 7)]);
        assert_eq!(matched(&taken, shows(1_000, 1), &none), Matched::Recorded);
        assert_eq!(matched(&taken, shows(1_000, 0), &none), Matched::Unrecorded);
        let back = dispute("lost", &[("txn_0", -2_000, 7), ("txn_1", 800, 9)]);
        assert_eq!(matched(&back, shows(600, 1), &none), Matched::Recorded);
        assert_eq!(matched(&back, shows(1_000, 1), &none), Matched::Unrecorded);
        let older = dispute("lost", &[("txn_1", -2_000, 7), ("txn_2", 800, 9)]);
        assert_eq!(matched(&older, shows(1_000, 1), &none), Matched::Recorded, "the newer one tells");
        let won = dispute("won", &[("txn_0", -2_000, 7), ("txn_1", 1_900, 9)]);
        assert_eq!(matched(&won, shows(1_000, 0), &none), Matched::Recorded, "at a lower rate");
    }

    #[test]
    fn payouts_and_fees_are_nobodys_payment() {
        for kind in ["payout", "stripe_fee", "topup", "adjustment"] {
            assert_eq!(
                matched(&row(kind, kind, &Value::Null), None, &Refunds::default()),
                Matched::Recorded,
                "{kind}"
            );
        }
    }
}
