//! The payments of the simulation of places: how each stands here and at Stripe.

#[cfg(test)]
use rusqlite::Connection;

use crate::tasks::provider_ledger::{LedgerStatus, RemoteRecord};
use crate::tasks::simulation::execute;
use once::id::{ObjectId, digest};
use payments::payment::id::PaymentId;

pub(super) const DAY_MS: u64 = 86_400_000;
pub(super) const OPENS_MS: u64 = 20_600 * DAY_MS;
pub(super) const PAYMENTS: u64 = 60;
pub(super) const BOOKS: &str = "acct_1";

/// How a payment stands here and at Stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Plain,
    /// Stripe made it days later: an earlier try was declined.
    LaterTry,
    /// Stripe has not our id.
    WithoutId,
    /// Neither that, nor was it made at that time.
    Astray,
    /// Given back: the refund says nothing of when the payment was made.
    Refunded,
    /// Its object has it, and the read model does not.
    NotShown,
    /// Of our id nothing is known.
    Nobodys,
    Foreign,
}

pub(super) struct Payment {
    pub(super) kind: Kind,
    pub(super) number: u64,
    pub(super) object: ObjectId,
    pub(super) made_at_ms: u64,
    pub(super) owner: String,
}

impl Payment {
    pub(super) fn number(number: u64) -> Self {
        let kind = match number % 10 {
            3 => Kind::LaterTry,
            4 => Kind::WithoutId,
            5 => Kind::Astray,
            6 => Kind::Refunded,
            7 => Kind::NotShown,
            8 => Kind::Nobodys,
            9 => Kind::Foreign,
            _ => Kind::Plain,
        };
        Self {
            kind,
            number,
            object: ObjectId::from_bytes(digest(&[b"simulated", &number.to_be_bytes()])),
            made_at_ms: OPENS_MS + number * 3 * DAY_MS + number * 997_000,
            owner: format!("account:{}", number % 5),
        }
    }

    pub(super) fn id(&self) -> String {
        PaymentId::in_object(self.object).to_string()
    }

    pub(super) fn intent(&self) -> String {
        format!("pi_{:03}", self.number)
    }

    pub(super) const fn is_ours(&self) -> bool {
        !matches!(self.kind, Kind::NotShown | Kind::Nobodys | Kind::Foreign)
    }

    pub(super) fn entry(&self) -> RemoteRecord {
        let later_ms = match self.kind {
            Kind::LaterTry => 4 * DAY_MS,
            Kind::Astray => 30 * DAY_MS,
            _ => 400,
        };
        RemoteRecord {
            id: self.intent(),
            status: LedgerStatus::Captured,
            amount_minor: 900,
            taken_minor: 900,
            refunded_minor: if self.kind == Kind::Refunded { 10 } else { 0 },
            currency: "eur".to_owned(),
            created_at_ms: self.made_at_ms + later_ms,
            resource: (!matches!(self.kind, Kind::WithoutId | Kind::Astray | Kind::Foreign))
                .then(|| self.id()),
        }
    }

    pub(super) fn write(&self, place: &Connection) {
        let sql = "INSERT INTO payments (payment_id, object, version, owner, status, amount_minor, captured_minor, refunded_minor, currency,
                provider, provider_payment, attempt, shown, created_at_ms, updated_at_ms, stripe_account)
             VALUES (?1, ?2, 3, ?3, 'succeeded', 900, 900, 0, 'eur', 'stripe', ?4, 1, '{}', ?5, ?5, ?6)";
        let at_ms = self.made_at_ms.cast_signed();
        execute(place, sql, (self.id(), self.object.to_hex(), &self.owner, self.intent(), at_ms, BOOKS))
            .unwrap();
        if self.kind == Kind::Refunded {
            let sql = "INSERT INTO refunds (refund_id, payment_id, version, status, amount_minor, currency, reason, provider, provider_refund,
                    created_at_ms, updated_at_ms) VALUES (?1, ?2, 3, 'succeeded', 10, 'eur', '', 'stripe', ?1, ?3, ?3)";
            execute(place, sql, (format!("re_{:03}", self.number), self.id(), at_ms)).unwrap();
        }
    }
}
