//! Whose payment it is of which a provider tells by its own id alone: some of the places of the read model are asked in each try, and it is remembered
//! how far that has come and what came of it. Pure.
//!
//! - A round asks D1 and then all shards, those of the newest periods first. Who is told of the payment again goes on where the last one has ended.
//! - What is in no place is somebody else's, or was on its way there while the round was made: it may be for [`LATE_MS`]. So a later round asks the
//!   shards of that time again, and no others; one that begins so long after the payment was first told of is the last.

use serde::{Deserialize, Serialize};

use crate::placement::ShardName;

/// How long a payment may be on its way into the read model, in ms.
pub const LATE_MS: u64 = 86_400_000;
/// How many shards are asked at once.
pub const STEP: usize = 48;

/// What D1 knows of payments (`?2`, a JSON list of ids) of the provider `?1`.
pub const KNOWN: &str = "SELECT asked.value AS payment,
        coalesce((SELECT object FROM payments WHERE provider_payment = asked.value LIMIT 1), l.object) AS object, l.since_ms, l.began_ms, l.after
     FROM json_each(?2) AS asked LEFT JOIN payment_lookups l ON l.provider = ?1 AND l.payment = asked.value";

/// Those of these payments (`?1`, a JSON list of ids) that a shard has.
pub const IN_SHARD: &str = "SELECT provider_payment AS payment, object FROM payments WHERE provider_payment IN (SELECT value FROM json_each(?1))";

/// Remembers how far payments of the provider `?1` were looked for ([`Noted`], `?2`, in JSON), at `?3`.
pub const NOTE: &str = "INSERT INTO payment_lookups (provider, payment, since_ms, began_ms, after, object, at_ms)
     SELECT ?1, value ->> 'payment', value ->> 'since_ms', value ->> 'began_ms', value ->> 'after', value ->> 'object', ?3
     FROM json_each(?2) WHERE true
     ON CONFLICT (provider, payment) DO UPDATE SET since_ms = excluded.since_ms, began_ms = excluded.began_ms, after = excluded.after,
        object = excluded.object, at_ms = excluded.at_ms";

/// A row of [`KNOWN`].
#[derive(Clone, Debug, Deserialize)]
pub struct Known {
    /// The provider's id.
    pub payment: String,
    /// Whose it is, as hexadecimal digits.
    pub object: Option<String>,
    since_ms: Option<u64>,
    began_ms: Option<u64>,
    after: Option<String>,
}

impl Known {
    /// The round that goes on or begins at `now_ms`. `None` if it is known to be in no place, by one that has begun at `from_ms` or later, or late enough.
    pub fn round(&self, from_ms: u64, now_ms: u64) -> Option<Round> {
        let new = |since_ms| Round { since_ms, began_ms: now_ms, after: String::new() };
        let (Some(since_ms), Some(began_ms)) = (self.since_ms, self.began_ms) else {
            return Some(new(now_ms));
        };
        match &self.after {
            Some(after) => Some(Round { since_ms, began_ms, after: after.clone() }),
            None if began_ms >= from_ms || began_ms >= since_ms.saturating_add(LATE_MS) => None,
            None => Some(new(since_ms)),
        }
    }
}

/// A round in which a payment is looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Round {
    since_ms: u64,
    began_ms: u64,
    /// The shard that was asked last; empty before the first one.
    pub after: String,
}

impl Round {
    /// Whether it asks this shard.
    pub fn asks(&self, shard: &ShardName) -> bool {
        let is_first = self.began_ms == self.since_ms;
        is_first || shard.ends_ms() > self.since_ms.saturating_sub(LATE_MS)
    }

    /// What is remembered once a payment was looked for as far as this shard; in all where there is none.
    pub fn noted(&self, payment: &str, after: Option<&str>) -> Noted {
        Noted {
            payment: payment.to_owned(),
            since_ms: self.since_ms,
            began_ms: self.began_ms,
            after: after.map(str::to_owned),
            object: None,
        }
    }
}

/// What is remembered of a payment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Noted {
    payment: String,
    since_ms: u64,
    began_ms: u64,
    after: Option<String>,
    object: Option<String>,
}

impl Noted {
    /// It is this object's.
    #[must_use]
    pub fn found(self, object: String) -> Self {
        Self { object: Some(object), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_MS: u64 = 1_790_000_000_000;
    const HOUR_MS: u64 = 3_600_000;

    fn known(noted: Option<&Noted>) -> Known {
        Known {
            payment: "P".to_owned(),
            object: None,
            since_ms: noted.map(|noted| noted.since_ms),
            began_ms: noted.map(|noted| noted.began_ms),
            after: noted.and_then(|noted| noted.after.clone()),
        }
    }

    fn shard(at_ms: u64) -> ShardName {
        ShardName { period: crate::placement::Period::Day.of(at_ms), layout_id: 1, slot: 0 }
    }

    #[test]
    fn a_round_asks_all_once_and_goes_on_where_it_has_ended() {
        let first = known(None).round(NOW_MS, NOW_MS).unwrap();
        assert!(first.after.is_empty() && first.asks(&shard(NOW_MS)) && first.asks(&shard(0)));
        let part = known(Some(&first.noted("P", Some("g1-2026-11-25-003"))));
        let next = part.round(NOW_MS + HOUR_MS, NOW_MS + HOUR_MS).unwrap();
        assert_eq!(next, Round { after: "g1-2026-11-25-003".to_owned(), ..first });
        assert!(next.asks(&shard(0)), "it is still the first one");
    }

    #[test]
    fn what_was_in_no_place_is_looked_for_again_only_where_it_may_have_come_since() {
        let first = known(None).round(NOW_MS, NOW_MS).unwrap();
        let over = known(Some(&first.noted("P", None)));
        assert_eq!(over.round(NOW_MS, NOW_MS + HOUR_MS), None, "it is known");
        // It is told of again.
        let again = over.round(NOW_MS + 1, NOW_MS + HOUR_MS).unwrap();
        assert!(again.asks(&shard(NOW_MS)) && again.asks(&shard(NOW_MS - LATE_MS)));
        assert!(!again.asks(&shard(NOW_MS - 2 * LATE_MS)));
        let over = known(Some(&again.noted("P", None)));
        assert!(over.round(NOW_MS + LATE_MS, NOW_MS + LATE_MS).is_some(), "it was early");
        let last = over.round(NOW_MS + LATE_MS, NOW_MS + LATE_MS).unwrap();
        let over = known(Some(&last.noted("P", None)));
        assert_eq!(over.round(u64::MAX, NOW_MS + 9 * LATE_MS), None, "nothing was on its way any more");
    }
}
