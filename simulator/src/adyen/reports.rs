//! Adyen's settlement details reports, of payouts that are asked for:
//! <https://docs.adyen.com/reporting/settlement-reconciliation/transaction-level/settlement-details-report>
//!
//! `POST /_sim/adyen/reports` closes a payout: it has all that was told since the one before, and `REPORT_AVAILABLE` tells where its report
//! is. `GET /adyen/reports/{file}` gives that to whoever has a key. A report never changes: it is made of notifications, and these stay.
//!
//! A merchant account that is named has payouts of its own, with numbers of its own: its reports are at
//! `GET /adyen/reports/MerchantAccount/{merchant account}/{file}`, for keys that have roles for it.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::adyen::currencies;
use crate::adyen::errors::{self, Fallible};
use crate::adyen::kinds::Kind;
use crate::adyen::payment::{self, CaptureMode, Payment};
use crate::clock;
use crate::failure::{Failure, Outcome};
use crate::provider::{Call, Links};
use crate::store::{Query, Row};

/// The number of the last notification of each payout, as JSON; a merchant account that is named stands behind it.
const PAYOUTS: &str = "adyen_payouts";
/// Where this Adyen is, for whom it is bound to.
const REPORTS_AT: &str = "https://adyen.simulator/adyen/reports";
const HEAD: &str = "Company Account,Merchant Account,Psp Reference,Merchant Reference,Payment Method,Creation Date,TimeZone,Type,\
                    Modification Reference,Gross Currency,Gross Debit (GC),Gross Credit (GC),Exchange Rate (GC->NC),Net Currency,\
                    Net Debit (NC),Net Credit (NC),Commission (NC),Markup (NC),Scheme Fees (NC),Interchange (NC),\
                    Payment Method Variant,Modification Merchant Reference,Batch Number,Reserved4\r\n";

/// What `POST /_sim/adyen/reports` takes.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Options {
    /// Where it is said to be, if that is not where it is.
    address: Option<String>,
    /// The payouts of this merchant account alone.
    merchant_account: Option<String>,
    /// It is told without a signature, as Adyen does in some cases.
    #[serde(default)]
    unsigned: bool,
}

/// Closes a payout and tells of its report.
pub fn close(call: &mut Call, body: &Value) -> Outcome<Value> {
    let Options { address, merchant_account: named, unsigned } = serde_json::from_value(body.clone())
        .map_err(|error| Failure { status: 400, message: format!("the body is not understood: {error}") })?;
    let newest = call.store.list(&Query { limit: 1, ..Query::all(Kind::Notification) })?;
    let named = named.as_deref();
    let mut payouts = payouts(call, named)?;
    payouts.push(newest.first().map_or(0, |row| row.seq));
    call.store.set_setting(&setting(named), serde_json::to_string(&payouts)?)?;
    let batch = payouts.len();
    let name = format!("settlement_detail_report_batch_{batch}.csv");
    let path = path(named, &name);
    let address = address.unwrap_or_else(|| format!("{REPORTS_AT}/{path}"));
    let mut item = json!({
        "amount": { "currency": "EUR", "value": 0 },
        "eventCode": "REPORT_AVAILABLE",
        "eventDate": clock::date(call.now_s()),
        "merchantAccountCode": merchant_account(call, named)?,
        "merchantReference": "",
        "pspReference": name,
        "reason": address,
        "success": "true",
    });
    // Where the signature stands.
    if !unsigned && let Some(fields) = item.as_object_mut() {
        fields.insert("additionalData".into(), json!({}));
    }
    call.insert(Kind::Notification, &format!("{path}:REPORT_AVAILABLE"), &item, Links::default())?;
    Ok(json!({ "batch": batch, "name": name, "address": address }))
}

/// Where the report is, below all of them.
fn path(named: Option<&str>, name: &str) -> String {
    named.map_or_else(
        || name.to_owned(),
        |merchant_account| format!("MerchantAccount/{merchant_account}/{name}"),
    )
}

fn setting(named: Option<&str>) -> String {
    named.map_or_else(|| PAYOUTS.to_owned(), |merchant_account| format!("{PAYOUTS}:{merchant_account}"))
}

fn payouts(call: &Call, named: Option<&str>) -> Outcome<Vec<i64>> {
    Ok(match call.store.setting(&setting(named))? {
        Some(payouts) => serde_json::from_str(&payouts)?,
        None => Vec::new(),
    })
}

/// The account of the newest payment, if none is named: a simulator has no other one to pay out to.
fn merchant_account(call: &Call, named: Option<&str>) -> Outcome<String> {
    if let Some(named) = named {
        return Ok(named.to_owned());
    }
    let newest = call.store.list(&Query { limit: 1, ..Query::all(Kind::Payment) })?;
    Ok(match newest.first() {
        Some(row) => serde_json::from_str::<Payment>(&row.body)?.merchant_account,
        None => "PaidOnceDemo".to_owned(),
    })
}

/// `GET /reports/{file}`, of all merchant accounts, or of the one that is named.
pub fn file(call: &Call, named: Option<&str>, name: &str) -> Fallible<String> {
    let number =
        name.strip_prefix("settlement_detail_report_batch_").and_then(|rest| rest.strip_suffix(".csv"));
    let batch: usize = number.and_then(|number| number.parse().ok()).unwrap_or(0);
    let payouts = payouts(call, named)?;
    let Some(last) = batch.checked_sub(1).and_then(|index| payouts.get(index)) else {
        return Err(errors::no_endpoint().into());
    };
    let first = batch.checked_sub(2).and_then(|index| payouts.get(index)).copied();
    let query = Query {
        after_seq: first,
        before_seq: Some(last + 1),
        oldest_first: true,
        ..Query::all(Kind::Notification)
    };
    let mut text = HEAD.to_owned();
    for row in call.store.list(&query)? {
        if let Some(line) = line(call, named, &row, batch)? {
            text.push_str(&line);
        }
    }
    let told =
        call.store.find(Kind::Notification.into(), &format!("{}:REPORT_AVAILABLE", path(named, name)))?;
    let at = date(told.map_or(0, |row| row.created_ms / 1000));
    for (kind, debit) in [("Fee", "0.10"), ("MerchantPayout", "0.90")] {
        let account = merchant_account(call, named)?;
        text.push_str(&format!(
            "Simulator,{account},,,,{at},UTC,{kind},\"batch {batch}, of {kind}\",,,,,EUR,{debit},,,,,,,,{batch},\r\n"
        ));
    }
    Ok(text)
}

/// The line of a notification, if it is about money that has moved.
fn line(call: &Call, named: Option<&str>, row: &Row, batch: usize) -> Fallible<Option<String>> {
    let item: Value = serde_json::from_str(&row.body)?;
    let text = |name: &str| item.get(name).and_then(Value::as_str).unwrap_or_default();
    let (own, original) = (text("pspReference"), text("originalReference"));
    let psp = row.parent.as_deref().unwrap_or(own);
    let is_meant = |payment: &Payment| named.is_none_or(|named| named == payment.merchant_account);
    let Some(payment) = payment::find(call, psp)?.filter(is_meant) else { return Ok(None) };
    let kind = match text("eventCode") {
        _ if text("success") != "true" => return Ok(None),
        // What is captured by itself is told by nothing else.
        "AUTHORISATION" if payment.capture == CaptureMode::Immediate => "Settled",
        "CAPTURE" => "Settled",
        "CAPTURE_FAILED" => "SettledReversed",
        "REFUND" => "Refunded",
        "REFUND_FAILED" | "REFUNDED_REVERSED" => "RefundedReversed",
        "CHARGEBACK" => "Chargeback",
        "SECOND_CHARGEBACK" => "SecondChargeback",
        "CHARGEBACK_REVERSED" => "ChargebackReversed",
        _ => return Ok(None),
    };
    let amount = item.get("amount");
    let currency = amount.and_then(|amount| amount.get("currency")?.as_str()).unwrap_or_default();
    let value = amount.and_then(|amount| amount.get("value")?.as_i64()).unwrap_or_default();
    let major = in_major_units(value, currencies::decimals(currency).unwrap_or(2));
    let (debit, credit) = match kind {
        "Settled" | "RefundedReversed" | "ChargebackReversed" => (String::new(), major),
        _ => (major, String::new()),
    };
    let reference = if original.is_empty() { "" } else { text("merchantReference") };
    let (account, brand, date) = (&payment.merchant_account, &payment.brand, date(row.created_ms / 1000));
    Ok(Some(format!(
        "Simulator,{account},{psp},{},{brand},{date},UTC,{kind},{own},{currency},{debit},{credit},1,{currency},{debit},{credit},0,0,0,0,\
         {brand}classic,{reference},{batch},\r\n",
        payment.reference
    )))
}

/// With all the decimals of its currency: `12.50`, `1000`.
fn in_major_units(value: i64, decimals: u32) -> String {
    let unit = 10i64.pow(decimals);
    let (whole, fraction) = (value / unit, value % unit);
    if decimals == 0 {
        whole.to_string()
    } else {
        format!("{whole}.{fraction:0width$}", width = decimals as usize)
    }
}

/// `2026-11-21 15:04:05`
fn date(seconds: i64) -> String {
    clock::date(seconds).replace('T', " ").replace("+00:00", "")
}

#[cfg(test)]
mod tests {
    use super::{date, in_major_units};

    #[test]
    fn amounts_have_the_decimals_of_their_currency() {
        let shown = [(1250, 2), (5, 2), (1000, 0), (1230, 3), (100_000, 2)]
            .map(|(value, of)| in_major_units(value, of));
        assert_eq!(shown, ["12.50", "0.05", "1000", "1.230", "1000.00"]);
        assert_eq!(date(1_795_273_445), "2026-11-21 15:04:05");
    }
}
