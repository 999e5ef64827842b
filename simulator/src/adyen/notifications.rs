//! What Adyen would tell by webhook: <https://docs.adyen.com/development-resources/webhooks/webhook-types>
//!
//! Each item is recorded in the transaction of the change itself, oldest first. Nothing sends them; `GET /_sim/adyen/notifications` shows
//! them. The items have every field that Adyen's HMAC signature is made of.

use serde_json::{Value, json};

use crate::adyen::body::Amount;
use crate::adyen::errors::Fallible;
use crate::adyen::payments::Payment;
use crate::call::{Call, Links};
use crate::errors::Outcome;
use crate::store::{Kind, Query, Store};

/// What happened to a payment.
pub struct Event<'a> {
    /// `eventCode`.
    pub code: &'static str,
    /// The modification's `pspReference`; none where it is about the payment itself.
    pub modification: Option<&'a str>,
    /// The modification's own reference; without one, the payment's.
    pub reference: Option<&'a str>,
    /// The amount that it is about; without one, the payment's.
    pub amount: Option<&'a Amount>,
    /// Why it failed; none where it succeeded.
    pub failure: Option<&'a str>,
}

/// Records an event.
pub fn record(call: &mut Call, payment: &Payment, event: &Event) -> Fallible<()> {
    let psp_reference = event.modification.unwrap_or(&payment.psp_reference);
    let mut additional_data = serde_json::Map::new();
    for (key, value) in &payment.metadata {
        additional_data.insert(format!("metadata.{key}"), json!(value));
    }
    let mut item = json!({
        "additionalData": additional_data,
        "amount": event.amount.unwrap_or(&payment.amount),
        "eventCode": event.code,
        "eventDate": date(call.now_s()),
        "merchantAccountCode": payment.merchant_account,
        "merchantReference": event.reference.unwrap_or(&payment.reference),
        "paymentMethod": payment.brand,
        "pspReference": psp_reference,
        "reason": event.failure.unwrap_or_default(),
        "success": if event.failure.is_none() { "true" } else { "false" },
    });
    if event.modification.is_some()
        && let Some(fields) = item.as_object_mut()
    {
        fields.insert("originalReference".into(), json!(payment.psp_reference));
    }
    let links = Links { parent: Some(payment.psp_reference.clone()), ..Links::default() };
    Ok(call.insert(Kind::AdyenNotification, &format!("{psp_reference}:{}", event.code), &item, links)?)
}

/// `GET /_sim/adyen/notifications?payment=…`
pub fn show(store: &dyn Store, payment: Option<String>) -> Outcome<Value> {
    let query = Query { parent: payment, oldest_first: true, ..Query::all(Kind::AdyenNotification) };
    let items = store
        .list(&query)?
        .iter()
        .map(|row| Ok(json!({ "NotificationRequestItem": serde_json::from_str::<Value>(&row.body)? })))
        .collect::<Result<Vec<Value>, serde_json::Error>>()?;
    Ok(json!({ "live": "false", "notificationItems": items }))
}

/// Seconds since 1970 as `2026-11-21T15:04:05+00:00`.
fn date(seconds: i64) -> String {
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Civil from days, in eras of 400 years that begin on the first of March.
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}+00:00")
}

#[cfg(test)]
mod tests {
    use super::date;

    #[test]
    fn seconds_become_a_date() {
        assert_eq!(date(0), "1970-01-01T00:00:00+00:00");
        assert_eq!(date(951_782_399), "2000-02-28T23:59:59+00:00");
        assert_eq!(date(951_782_400), "2000-02-29T00:00:00+00:00");
        assert_eq!(date(1_795_273_445), "2026-11-21T15:04:05+00:00");
    }
}
