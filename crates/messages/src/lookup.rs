//! Whose payment it is of which a provider tells by its own id alone: some of the places of the read model are asked in each try, and it is remembered
//! how far that has come and what came of it. Pure.
//!
//! - A round asks D1 and then all shards, those of the newest periods first. Who is told of the payment again goes on where the last one has ended.
//! - Of the shards of an owner those are asked for what has come furthest, so that it ends, however much comes anew; all else of that owner waits together.
//!   Owners take turns.
//! - What an account with keys of its own tells is looked for and remembered apart, in its own shards: it decides nothing for anybody else.
//! - What is in no place is somebody else's, or was on its way there while the round was made: it may be for [`LATE_MS`]. So a later round asks the
//!   shards of that time again, and no others; one that begins so long after the payment was first told of is the last.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::placement::ShardName;

/// How long a payment may be on its way into the read model, in ms. Its provider's id may come days after it: as long as it is not known what came of
/// its call.
pub const LATE_MS: u64 = 4 * 86_400_000;
/// How many shards are asked at once.
pub const STEP: usize = 48;

/// What D1 knows of payments (`?1`, a JSON list: who [tells] of each, and its provider's id).
pub const KNOWN: &str = "SELECT asked.value ->> 0 AS tells, asked.value ->> 1 AS payment,
        coalesce((SELECT object FROM payments WHERE provider_payment = asked.value ->> 1 LIMIT 1), l.object) AS object, l.since_ms, l.began_ms, l.after
     FROM json_each(?1) AS asked
     LEFT JOIN payment_lookups l ON l.provider = asked.value ->> 0 AND l.payment = asked.value ->> 1";

/// Those of these payments (`?1`, a JSON list of ids) that a shard has.
pub const IN_SHARD: &str = "SELECT provider_payment AS payment, object FROM payments WHERE provider_payment IN (SELECT value FROM json_each(?1))";

/// Remembers how far payments were looked for ([`Noted`], `?1`, in JSON), at `?2`. What another try has learnt meanwhile stays.
pub const NOTE: &str = "INSERT INTO payment_lookups (provider, payment, since_ms, began_ms, after, object, at_ms)
     SELECT value ->> 'tells', value ->> 'payment', value ->> 'since_ms', value ->> 'began_ms', value ->> 'after', value ->> 'object', ?2
     FROM json_each(?1) WHERE true
     ON CONFLICT (provider, payment) DO UPDATE SET since_ms = excluded.since_ms, began_ms = excluded.began_ms,
        after = iif(began_ms = excluded.began_ms AND after IS NULL, NULL, excluded.after),
        object = coalesce(excluded.object, object), at_ms = excluded.at_ms
     WHERE excluded.began_ms >= began_ms OR excluded.object IS NOT NULL";

/// Who tells of a payment: a provider, or this owner's account there.
pub fn tells(provider: &str, owner: Option<&str>) -> String {
    owner.map_or_else(|| provider.to_owned(), |owner| format!("{provider}/{owner}"))
}

/// A row of [`KNOWN`].
#[derive(Clone, Debug, Deserialize)]
pub struct Known {
    /// Who [tells] of it.
    pub tells: String,
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
            None => {
                let round = Round { since_ms, began_ms, after: String::new() };
                (!round.decides(from_ms)).then(|| new(since_ms))
            }
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

    /// Whether it is believed, once it is over, that a payment is in no place: if it has begun at `from_ms` or later, or when nothing was on its way any more.
    pub const fn decides(&self, from_ms: u64) -> bool {
        self.began_ms >= from_ms || self.began_ms >= self.since_ms.saturating_add(LATE_MS)
    }

    /// How far it is, so that what is further is more: shards are asked from the newest to the oldest.
    fn progress(&self) -> Option<Reverse<(String, String)>> {
        progress(&self.after)
    }
}

/// In the order of `shards.ends` and `name`, which is that in which they are asked: a day of a month comes behind that month.
fn progress(after: &str) -> Option<Reverse<(String, String)>> {
    ShardName::parse(after).map(|shard| Reverse((format!("{}~", shard.period), after.to_owned())))
}

/// A payment that is looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sought {
    /// Who [tells] of it.
    pub tells: String,
    /// The provider's id.
    pub payment: String,
    /// That it is in no place is believed of a round that has begun then or later, in ms since the epoch.
    pub from_ms: u64,
    /// Its round.
    pub round: Round,
}

impl Sought {
    /// What is remembered once it was looked for in all places, or found in one.
    pub fn over(&self, object: Option<String>) -> Noted {
        self.noted(None, object)
    }

    /// What is remembered once it was looked for as far as this shard. `None` if it has come further by itself.
    pub fn until(&self, after: &str) -> Option<Noted> {
        (progress(after) > self.round.progress()).then(|| self.noted(Some(after), None))
    }

    fn noted(&self, after: Option<&str>, object: Option<String>) -> Noted {
        Noted {
            tells: self.tells.clone(),
            payment: self.payment.clone(),
            since_ms: self.round.since_ms,
            began_ms: self.round.began_ms,
            after: after.map(str::to_owned),
            object,
        }
    }
}

/// What is looked for together, from the same shard on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Walk {
    /// Whose shards are asked; all where there is none.
    pub owner: Option<String>,
    /// The shard that was asked last; empty before the first one.
    pub after: String,
    /// What is looked for.
    pub sought: Vec<Sought>,
}

/// What is looked for among the shards of each owner: first what has come furthest, then all else together. Owners come in turn, by
/// the ms of the time, which no interval of a clock is in step with.
pub fn walks(sought: Vec<(Option<String>, Sought)>, now_ms: u64) -> Vec<Vec<Walk>> {
    let mut by_owner: BTreeMap<Option<String>, Vec<Sought>> = BTreeMap::new();
    for (owner, one) in sought {
        by_owner.entry(owner).or_default().push(one);
    }
    let mut all: Vec<Vec<Walk>> = by_owner.into_iter().map(|(owner, all)| cohorts(owner, all)).collect();
    let turn = usize::try_from(now_ms).unwrap_or_default();
    let first = turn.checked_rem(all.len()).unwrap_or_default();
    all.rotate_left(first);
    all
}

fn cohorts(owner: Option<String>, all: Vec<Sought>) -> Vec<Walk> {
    let furthest = all.iter().map(|one| one.round.progress()).max().flatten();
    let (first, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|one| one.round.progress() == furthest);
    let walk = |sought: Vec<Sought>| {
        let least = sought.iter().map(|one| &one.round).min_by_key(|round| round.progress())?;
        Some(Walk { owner: owner.clone(), after: least.after.clone(), sought })
    };
    [first, others].into_iter().filter_map(walk).collect()
}

/// How many shards the next of so many owners may ask, where so many are left for all of them.
pub const fn share(left: usize, owners: usize) -> usize {
    let even = match left.checked_div(owners) {
        Some(even) => even,
        None => left,
    };
    let step = if STEP < left { STEP } else { left };
    if even > step { even } else { step }
}

/// What is remembered of a payment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Noted {
    tells: String,
    payment: String,
    since_ms: u64,
    began_ms: u64,
    after: Option<String>,
    object: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::Period;

    const NOW_MS: u64 = 1_790_000_000_000;
    const HOUR_MS: u64 = 3_600_000;
    const DAY_MS: u64 = 24 * HOUR_MS;

    fn known(noted: Option<&Noted>) -> Known {
        Known {
            tells: "adyen".to_owned(),
            payment: "P".to_owned(),
            object: None,
            since_ms: noted.map(|noted| noted.since_ms),
            began_ms: noted.map(|noted| noted.began_ms),
            after: noted.and_then(|noted| noted.after.clone()),
        }
    }

    fn shard(at_ms: u64) -> ShardName {
        ShardName { period: Period::Day.of(at_ms), layout_id: 1, slot: 0 }
    }

    fn sought(round: Round) -> Sought {
        Sought { tells: "adyen".to_owned(), payment: "P".to_owned(), from_ms: 0, round }
    }

    #[test]
    fn a_round_asks_all_once_and_goes_on_where_it_has_ended() {
        let first = known(None).round(NOW_MS, NOW_MS).unwrap();
        assert!(first.after.is_empty() && first.asks(&shard(NOW_MS)) && first.asks(&shard(0)));
        let after = shard(NOW_MS).to_string();
        let part = known(sought(first.clone()).until(&after).as_ref());
        let next = part.round(NOW_MS + HOUR_MS, NOW_MS + HOUR_MS).unwrap();
        assert_eq!(next, Round { after, ..first });
        assert!(next.asks(&shard(0)), "it is still the first one");
    }

    #[test]
    fn what_was_in_no_place_is_looked_for_again_only_where_it_may_have_come_since() {
        let first = known(None).round(NOW_MS, NOW_MS).unwrap();
        let over = known(Some(&sought(first).over(None)));
        assert_eq!(over.round(NOW_MS, NOW_MS + HOUR_MS), None, "it is known");
        // It is told of again.
        let again = over.round(NOW_MS + 1, NOW_MS + HOUR_MS).unwrap();
        assert!(again.asks(&shard(NOW_MS)) && again.asks(&shard(NOW_MS - LATE_MS)));
        assert!(!again.asks(&shard(NOW_MS - 2 * LATE_MS)));
        let over = known(Some(&sought(again).over(None)));
        let last = over.round(NOW_MS + LATE_MS, NOW_MS + LATE_MS).unwrap();
        let over = known(Some(&sought(last).over(None)));
        assert_eq!(over.round(u64::MAX, NOW_MS + 9 * LATE_MS), None, "nothing was on its way any more");
    }

    #[test]
    fn a_round_that_began_before_it_was_told_decides_nothing() {
        let early = known(None).round(NOW_MS, NOW_MS).unwrap();
        assert!(early.decides(NOW_MS));
        assert!(!early.decides(NOW_MS + 1), "what came meanwhile may stand in a shard that was asked before");
    }

    /// Rounds, one event a run, over so many shards, of which a run asks some: how many runs the first one takes.
    fn runs_to_the_end(shards: usize, a_run: usize) -> usize {
        let names: Vec<String> =
            (0..shards as u64).map(|day| shard(NOW_MS - day * DAY_MS).to_string()).collect();
        let position = |after: &str| names.iter().position(|name| name == after).map_or(0, |at| at + 1);
        let mut waiting: Vec<Sought> = Vec::new();
        for run in 1..10 * shards {
            let round = Round { since_ms: NOW_MS, began_ms: NOW_MS, after: String::new() };
            waiting.push(Sought { payment: run.to_string(), ..sought(round) });
            let mut left = a_run;
            let mut next = Vec::new();
            for walk in walks(waiting.into_iter().map(|one| (None, one)).collect(), 0).into_iter().flatten() {
                let from = position(&walk.after);
                let to = shards.min(from + left);
                left -= to - from;
                for mut one in walk.sought {
                    if to == shards {
                        if one.payment == "1" {
                            return run;
                        }
                    } else {
                        if to > 0 && one.until(&names[to - 1]).is_some() {
                            one.round.after.clone_from(&names[to - 1]);
                        }
                        next.push(one);
                    }
                }
            }
            waiting = next;
        }
        usize::MAX
    }

    #[test]
    fn a_round_ends_however_much_comes_anew() {
        assert_eq!(runs_to_the_end(100, 10), 10);
        assert_eq!(runs_to_the_end(95, 10), 10);
        assert_eq!(runs_to_the_end(5, 10), 1);
    }

    #[test]
    fn progress_is_in_the_order_in_which_shards_are_asked() {
        // By `shards_behind`: ends (the period and `~`) and name, both descending.
        let asked = [
            "g2-2026-12-01-001",
            "g1-2026-11-050",
            "g1-2026-11-000",
            "g2-2026-11-30-479",
            "g2-2026-11-30-300",
            "g3-2026-11-30T23-007",
        ];
        assert!(asked.iter().all(|name| progress(name).is_some()));
        assert!(asked.is_sorted_by_key(|name| progress(name)), "{asked:?}");
        assert!(progress("") < progress(asked[0]));
    }

    #[test]
    fn one_owner_takes_no_other_ones_turn() {
        let round = Round { since_ms: NOW_MS, began_ms: NOW_MS, after: String::new() };
        let owners = ["a", "b", "c"].map(|owner| (Some(owner.to_owned()), sought(round.clone())));
        let firsts = [0, 1, 2].map(|at_ms| walks(owners.to_vec(), at_ms)[0][0].owner.clone().unwrap());
        assert_eq!(firsts, ["a", "b", "c"]);
        assert_eq!([share(2_000, 4), share(100, 4), share(30, 4), share(0, 4)], [500, STEP, 30, 0]);
    }
}
