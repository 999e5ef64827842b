//! What the simulation of Adyen's reports tells of: payments as places have them, and the reports about them.

#[cfg(test)]
use rusqlite::Connection;

use crate::tasks::simulation::execute;
use once::id::{ObjectId, digest};
use payments::payment::id::PaymentId;
use payments::utc;

pub(super) const DAY_MS: u64 = 86_400_000;
pub(super) const OPENS_MS: u64 = 20_600 * DAY_MS;
/// Payments that were made from then on are in shards; those before are moved there.
pub(super) const SHARDS_FROM_MS: u64 = OPENS_MS + 80 * DAY_MS;
pub(super) const REPORTS_MS: u64 = OPENS_MS + 180 * DAY_MS;
pub(super) const PAYMENTS: u64 = 72;
/// The deployment's merchant account.
pub(super) const SHOP: &str = "Shop";
/// The merchant accounts of two accounts with a key of their own.
const OWN: &str = "Own_ECOM";
const ANOTHERS: &str = "Anothers_ECOM";

/// One payment, and what each of two places may have of it.
pub(super) struct Payment {
    pub(super) id: String,
    pub(super) object: String,
    pub(super) psp: String,
    pub(super) made_at_ms: u64,
}

impl Payment {
    pub(super) fn number(number: u64) -> Self {
        let object = ObjectId::from_bytes(digest(&[b"simulated", &number.to_be_bytes()]));
        Self {
            id: PaymentId::in_object(object).to_string(),
            object: object.to_hex(),
            psp: format!("PSP{number:03}"),
            made_at_ms: OPENS_MS + number * 2 * DAY_MS,
        }
    }
}

/// The merchant account that it was made in, where that is not the deployment's.
const fn merchant(number: u64) -> Option<&'static str> {
    if number % 6 == 1 { Some(OWN) } else { None }
}

/// The keys by which merchant accounts are known.
pub(super) fn write_keys(place: &Connection) {
    let sql = "INSERT INTO account_credentials (account, kind, sealed, sealed_with, hint, mode, merchant_account, changed_at_ms)
        VALUES (?1, 'adyen_api_key', '', '', '', 'live', ?1, 1)";
    for name in [OWN, ANOTHERS] {
        execute(place, sql, [name]).unwrap();
    }
}

/// The versions of a payment that its place has, and of one that was made in D1 those that its shard has already.
pub(super) fn versions(number: u64) -> (u64, Option<u64>) {
    match number % 3 {
        0 => (1 + number % 2, Some(3)),
        1 => (3, None),
        _ => (1, None),
    }
}

/// What the newest version of it is.
fn newest(number: u64) -> u64 {
    let (of_place, of_shard) = versions(number);
    of_shard.unwrap_or(of_place)
}

/// Writes one version, with what came with it: each but the first one has a refund of its own.
pub(super) fn write(place: &Connection, number: u64, version: u64) {
    let payment = Payment::number(number);
    let at_ms = (payment.made_at_ms + version).cast_signed();
    execute(
        place,
            "INSERT INTO payments (payment_id, object, version, owner, status, amount_minor, captured_minor, refunded_minor, currency,
                provider, provider_payment, attempt, shown, created_at_ms, updated_at_ms, merchant_account)
             VALUES (?1, ?2, ?3, ?4, 'succeeded', 900, 900, 0, 'eur', 'adyen', ?5, 1, '{}', ?6, ?7, ?8)",
            (
                &payment.id,
                &payment.object,
                version.cast_signed(),
                format!("account:{}", number % 11),
                &payment.psp,
                payment.made_at_ms.cast_signed(),
                at_ms,
                merchant(number),
            ),
        )
        .unwrap();
    if version > 1 {
        let sql = "INSERT INTO refunds (refund_id, payment_id, version, status, amount_minor, currency, reason, provider, provider_refund,
                created_at_ms, updated_at_ms) VALUES (?1, ?2, ?3, 'succeeded', ?4, 'eur', '', 'adyen', ?5, ?6, ?6)";
        let id = format!("{}-{version}", payment.psp);
        execute(place, sql, (&id, &payment.id, version.cast_signed(), refunded(version), &id, at_ms))
            .unwrap();
    }
}

fn refunded(version: u64) -> i64 {
    version.cast_signed() * 10
}

/// The versions whose rows a place has: of one that was told twice each place has one of its refunds.
pub(super) fn write_versions(place: &Connection, number: u64, versions: &[u64]) {
    for version in versions {
        execute(place, "DELETE FROM payments WHERE payment_id = ?1", [Payment::number(number).id]).unwrap();
        write(place, number, *version);
    }
}

fn row(merchant: &str, cells: [&str; 8]) -> String {
    let [payment, reference, at, kind, modification, debit, credit, batch] = cells;
    format!(
        "{merchant},{payment},{reference},{at},UTC,{kind},{modification},EUR,{debit},{credit},{batch}\r\n"
    )
}

/// The reports: what agrees and what does not, what nobody knows, and lines of one payment in two reports.
pub(super) fn reports() -> Vec<String> {
    let mut lines = [Vec::new(), Vec::new(), Vec::new()];
    let date = |at_ms: u64| utc(at_ms).unwrap().format("%Y-%m-%d %H:%M:%S").to_string();
    for number in 0..PAYMENTS {
        let Payment { id, psp, made_at_ms, .. } = Payment::number(number);
        let (reference, at) = (format!("{id}.x"), date(made_at_ms + DAY_MS * (number % 4)));
        let of = usize::try_from(number % 2).unwrap();
        let shop = merchant(number).unwrap_or(SHOP);
        let settled = if number % 8 == 3 { "8.00" } else { "9.00" };
        if number % 8 == 5 {
            continue;
        }
        // Some only Adyen's id is known of.
        let reference = if number % 5 == 0 { "" } else { &*reference };
        lines[of].push(row(shop, [&psp, reference, &at, "Settled", &psp, "", settled, "1"]));
        for version in 2..=newest(number) {
            if version == 2 && versions(number) != (3, None) && versions(number).0 != 2 {
                continue;
            }
            let (modification, amount) = (format!("{psp}-{version}"), format!("0.{}", refunded(version)));
            lines[of].push(row(shop, [&psp, reference, &at, "Refunded", &modification, &amount, "", "1"]));
        }
        if number % 12 == 1 {
            // Another one's lines name it.
            lines[of].push(row(ANOTHERS, [&psp, reference, &at, "Settled", &psp, "", "5.00", "1"]));
        }
        let later = date(made_at_ms + 9 * DAY_MS);
        match number % 8 {
            4 => lines[2].push(row(
                shop,
                [&psp, reference, &later, "Refunded", &format!("REF{number}"), "1.00", "", "2"],
            )),
            6 => lines[2].push(row(
                shop,
                [&psp, reference, &later, "Chargeback", &format!("DIS{number}"), "9.00", "", "2"],
            )),
            _ => {}
        }
        if number % 16 == 2 {
            let nobody = Payment::number(1_000 + number);
            let reference = if number % 32 == 2 { nobody.id } else { "their own".to_owned() };
            lines[of]
                .push(row(shop, [&nobody.psp, &reference, &at, "Settled", &nobody.psp, "", "3.00", "1"]));
        }
    }
    let head = "Merchant Account,Psp Reference,Merchant Reference,Creation Date,TimeZone,Type,Modification Reference,Gross Currency,\
                Gross Debit (GC),Gross Credit (GC),Batch Number\r\n";
    lines.iter().map(|lines| format!("{head}{}", lines.concat())).collect()
}
