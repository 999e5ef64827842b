//! What moves the account's balance: a row for each movement. <https://docs.stripe.com/api/balance_transactions>
//!
//! Amounts are in the account's own currency, after exchange and with their sign; what a customer paid stands on the charge. Money
//! that a capture takes asynchronously has its row a moment after the charge, which tells of it with `charge.updated`.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::provider::{Call, Links};
use crate::store::Query;
use crate::stripe::currencies;
use crate::stripe::errors::{ApiError, Outcome};
use crate::stripe::kinds::Kind;
use crate::stripe::lists::{self, Page};
use crate::stripe::objects::{Objects, shown};
use crate::stripe::params::Params;

/// What the account settles in, as `accounts` says.
const SETTLES_IN: &str = "usd";
/// After how long money can be paid out.
const AVAILABLE_AFTER_MS: i64 = 2 * 24 * 60 * 60 * 1000;
/// How long after its charge the row of an asynchronous capture is there.
pub const ASYNC_CAPTURE_MS: i64 = 1_500;
/// What a dispute costs.
const DISPUTE_FEE: i64 = 1_500;

/// One movement.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BalanceTransaction {
    /// `txn_…`
    pub id: String,
    object: String,
    /// In the smallest unit of `SETTLES_IN`; below 0 where money leaves.
    pub amount: i64,
    available_on: i64,
    balance_type: String,
    created: i64,
    currency: String,
    description: Option<String>,
    exchange_rate: Option<f64>,
    /// What Stripe keeps.
    pub fee: i64,
    fee_details: Value,
    /// What is left of the amount.
    pub net: i64,
    reporting_category: String,
    source: Option<String>,
    status: String,
    #[serde(rename = "type")]
    kind: String,
}

/// Why money moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Movement {
    /// A customer pays.
    Charge,
    /// A customer is given money back.
    Refund,
    /// That did not arrive: the money is back.
    RefundFailure,
    /// The same, as other documents of Stripe's have it.
    /// <https://docs.stripe.com/refunds#failed-refunds> and <https://docs.stripe.com/reports/reporting-categories>
    RefundFailureAdjustment,
    /// A bank takes money back for its customer.
    DisputeWithdrawn,
    /// The bank gives it back.
    DisputeReinstated,
}

impl Movement {
    const fn kind(self) -> &'static str {
        match self {
            Self::Charge => "charge",
            Self::Refund => "refund",
            Self::RefundFailure => "refund_failure",
            Self::RefundFailureAdjustment | Self::DisputeWithdrawn | Self::DisputeReinstated => "adjustment",
        }
    }

    const fn category(self) -> &'static str {
        match self {
            Self::RefundFailureAdjustment => Self::RefundFailure.kind(),
            Self::DisputeWithdrawn => "dispute",
            Self::DisputeReinstated => "dispute_reversal",
            other => other.kind(),
        }
    }

    const fn sign(self) -> i64 {
        match self {
            Self::Charge | Self::RefundFailure | Self::RefundFailureAdjustment | Self::DisputeReinstated => 1,
            Self::Refund | Self::DisputeWithdrawn => -1,
        }
    }

    fn fee(self, settled: i64) -> i64 {
        match self {
            // 2.9 % and 30 cents.
            Self::Charge => (settled * 29 + 500) / 1000 + 30,
            Self::DisputeWithdrawn => DISPUTE_FEE,
            Self::Refund | Self::RefundFailure | Self::RefundFailureAdjustment | Self::DisputeReinstated => 0,
        }
    }
}

/// Writes down that `source` (a charge, a refund or a dispute) has moved an amount of its own currency. Gives the movement's id.
pub fn record(
    call: &mut Call,
    movement: Movement,
    source: &str,
    amount_minor: i64,
    currency: &str,
) -> Outcome<String> {
    let id = call.new_id(Kind::BalanceTransaction);
    let (settled, exchange_rate) = exchanged(amount_minor, currency);
    let fee = movement.fee(settled);
    let amount = movement.sign() * settled;
    let fee_details = match fee {
        0 => json!([]),
        fee => json!([{
            "amount": fee, "application": null, "currency": SETTLES_IN, "description": "Stripe processing fees",
            "type": "stripe_fee",
        }]),
    };
    let available_ms = call.now_ms + AVAILABLE_AFTER_MS;
    let row = BalanceTransaction {
        id: id.clone(),
        object: "balance_transaction".to_owned(),
        amount,
        available_on: available_ms.div_euclid(1000),
        balance_type: "payments".to_owned(),
        created: call.now_s(),
        currency: SETTLES_IN.to_owned(),
        description: None,
        exchange_rate,
        fee,
        fee_details,
        net: amount - fee,
        reporting_category: movement.category().to_owned(),
        source: Some(source.to_owned()),
        status: "pending".to_owned(),
        kind: movement.kind().to_owned(),
    };
    let links = Links {
        parent: Some(source.to_owned()),
        label: Some(row.kind.clone()),
        due_ms: Some(available_ms),
        ..Links::default()
    };
    call.insert(Kind::BalanceTransaction, &id, &row, links)?;
    Ok(id)
}

/// The amount in the account's currency, and the rate if that is another one.
fn exchanged(amount_minor: i64, currency: &str) -> (i64, Option<f64>) {
    if currency == SETTLES_IN {
        return (amount_minor, None);
    }
    // In millionths of a dollar. What has no rate of its own is worth a quarter.
    let rate: i64 = match currency {
        "eur" => 1_080_000,
        "gbp" => 1_270_000,
        "chf" => 1_130_000,
        "kwd" => 3_250_000,
        "jpy" => 6_700,
        "krw" => 720,
        "huf" => 2_700,
        _ => 250_000,
    };
    let unit = 10_i64.pow(currencies::decimals(currency)) * 10_000;
    let settled = (amount_minor * rate + unit / 2) / unit;
    #[allow(clippy::cast_precision_loss, reason = "seven digits")]
    let shown_rate = rate as f64 / 1e6;
    (settled, Some(shown_rate))
}

/// What time does: the money can be paid out.
pub fn settle(call: &mut Call, mut row: BalanceTransaction) -> Outcome<()> {
    row.status = "available".to_owned();
    Ok(call.save(Kind::BalanceTransaction, &row.id, &row, None)?)
}

/// `GET /v1/balance_transactions/{id}`
pub fn retrieve(call: &mut Call, id: &str, params: &Params) -> Outcome<Value> {
    params.allow(&[])?;
    shown(&call.of_path::<BalanceTransaction>(Kind::BalanceTransaction, id, "id")?)
}

/// `GET /v1/balance_transactions`
pub fn list(call: &mut Call, params: &Params) -> Outcome<Value> {
    params.allow(&[
        "created",
        "currency",
        "ending_before",
        "limit",
        "payout",
        "source",
        "starting_after",
        "type",
    ])?;
    if let Some(id) = params.text("payout")? {
        let mut error =
            ApiError::invalid(format!("No such payout: '{id}'")).code("resource_missing").param("payout");
        error.status = 404;
        return Err(error.refused());
    }
    let mut labels: Vec<String> = params.text("type")?.map(str::to_owned).into_iter().collect();
    if params.text("currency")?.is_some_and(|currency| currency != SETTLES_IN) {
        // Nothing is settled in any other.
        labels = vec!["nothing".to_owned()];
    }
    let query = Query {
        parent: params.text("source")?.map(str::to_owned),
        labels,
        ..Query::all(Kind::BalanceTransaction)
    };
    lists::page(call, params, Page { kind: Kind::BalanceTransaction, query, url: "/v1/balance_transactions" })
}

/// `GET /v1/balance`
pub fn balance(call: &mut Call, params: &Params) -> Outcome<Value> {
    params.allow(&[])?;
    let (mut available, mut pending) = (0, 0);
    for row in call.list(Query::all(Kind::BalanceTransaction))? {
        let row: BalanceTransaction = serde_json::from_str(&row.body)?;
        *(if row.status == "available" { &mut available } else { &mut pending }) += row.net;
    }
    let of = |amount: i64| json!([{ "amount": amount, "currency": SETTLES_IN, "source_types": { "card": amount } }]);
    Ok(json!({
        "object": "balance", "available": of(available), "livemode": false, "pending": of(pending),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_is_exchanged_from_the_unit_of_its_currency() {
        assert_eq!(exchanged(2_500, "usd"), (2_500, None));
        assert_eq!(exchanged(1_000, "eur"), (1_080, Some(1.08)));
        assert_eq!(exchanged(1_000, "jpy"), (670, Some(0.0067)));
        assert_eq!(exchanged(1_000, "kwd"), (325, Some(3.25)));
        assert_eq!(Movement::Charge.fee(10_000), 320);
    }
}
