//! The ledger of all providers, as JSON and as a page.

use serde_json::Value;

use crate::failure::Outcome;
use crate::ledger::{Filter, Ledger};
use crate::money::format_minor;
use crate::pages::{self, escape};
use crate::provider::Providers;
use crate::store::Store;

/// Rows on the page: the newest.
const ROWS: usize = 200;

/// `GET /_sim/ledger`, with the conditions of a [`Filter`].
pub fn show(providers: Providers, store: &dyn Store, query: &str) -> Outcome<Value> {
    let filter = Filter::of(query);
    let mut ledger = Ledger::default();
    for provider in providers.iter().filter(|provider| filter.provider(provider.name())) {
        provider.add_to_ledger(store, &filter, &mut ledger)?;
    }
    Ok(ledger.into_json())
}

/// The ledger for a person: its JSON as a table, newest first.
pub fn page(providers: Providers, ledger: &Value, offset_ms: i64) -> String {
    let text = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).unwrap_or("").to_owned();
    let number = |value: &Value, name: &str| value.get(name).and_then(Value::as_i64).unwrap_or(0);
    let charges = ledger.get("charges").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let rows: String = charges
        .iter()
        .rev()
        .take(ROWS)
        .map(|charge| {
            let currency = text(charge, "currency").to_ascii_lowercase();
            let provider = providers.named(&text(charge, "provider"));
            let decimals = provider.map_or(2, |provider| provider.decimals(&text(charge, "currency")));
            let amount = |name: &str| escape(&format_minor(number(charge, name), &currency, decimals));
            let status = text(charge, "status");
            let class = match status.as_str() {
                "succeeded" => "good",
                "pending" => "",
                _ => "bad",
            };
            let payment = match charge.get("reference") {
                Some(Value::String(reference)) => reference.clone(),
                _ => text(charge, "payment_intent"),
            };
            format!(
                "<tr><td>{}</td><td><code>{}</code></td><td class=\"{class}\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>\
                 <td><code>{}</code></td><td><code>{}</code></td></tr>",
                escape(&text(charge, "provider")),
                escape(&text(charge, "id")),
                escape(&status),
                amount("amount"),
                amount("amount_captured"),
                amount("amount_refunded"),
                escape(&payment),
                escape(&text(charge, "idempotency_key")),
            )
        })
        .collect();
    let rows =
        if rows.is_empty() { "<tr><td colspan=\"8\">No charge yet.</td></tr>".to_owned() } else { rows };
    let clock = match offset_ms / 60_000 {
        0 => "The clock is right.".to_owned(),
        minutes => format!("The clock was moved: it is {} h {} min ahead.", minutes / 60, minutes % 60),
    };
    let totals = ledger.get("totals").cloned().unwrap_or_default();
    pages::page(
        "Payment simulator",
        "",
        &format!(
            "<h1>Payment simulator</h1><p>Every charge that was ever made here, whatever the caller believes. {clock}</p><p><a href=\"/_sim/mailbox\">Emails and text messages</a></p><dl><div><dt>Succeeded charges</dt><dd>{}</dd></div><div><dt>Attempts</dt><dd>{}</dd></div></dl><div class=\"card\">\
             <table><thead><tr><th>Provider</th><th>Charge</th><th>Status</th><th class=\"n\">Amount</th><th class=\"n\">Captured</th><th class=\"n\">Refunded</th><th>PaymentIntent or reference</th>\
             <th>Idempotency key</th></tr></thead><tbody>{rows}</tbody></table></div>",
            number(&totals, "succeeded_charges"),
            charges.len(),
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_callers_sent_is_escaped() {
        let ledger = serde_json::json!({ "charges": [{ "id": "ch_1", "idempotency_key": "<script>'\"&" }] });
        let html = page(Providers(&[]), &ledger, 0);
        assert!(html.contains("&lt;script&gt;&#39;&quot;&amp;"));
        assert!(!html.contains("<script>"));
    }
}
