//! Where the rows of a payment stand in the read model: in D1, or in a shard. Pure: the layouts say it, and whoever asks for the same payment
//! gets the same place.
//!
//! - A payment's place follows from whose it is, when it was made and its object, none of which ever changes.
//! - A layout begins in the future, so that all isolates know it before it counts.
//! - What has no payment (a customer, a bound key) stays in D1.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use chrono::{DateTime, Months, TimeDelta, Utc};
use serde::{Deserialize, Serialize};

use once::id::digest;
use once::sorted;
use payments::timestamp;

/// What is in one shard is of one of these (UTC).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Period {
    /// A month: `2026-11`.
    #[default]
    Month,
    /// A day: `2026-11-25`.
    Day,
    /// An hour: `2026-11-25T07`.
    Hour,
}

impl Period {
    /// As it is stored.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Month => "month",
            Self::Day => "day",
            Self::Hour => "hour",
        }
    }

    /// The most slots of a layout. A list of all payments, the newest first, asks a whole period at once; so a period of fewer shards is as good for
    /// it as it is short, and a day, which must have many where an hour or a month is too large or too small, has no more than one page may ask.
    pub const fn slots_max(self) -> u32 {
        match self {
            Self::Month | Self::Hour => 100,
            Self::Day => 480,
        }
    }

    /// The period of a moment, in ms since the epoch. A longer one that begins at the same time comes before a shorter one, and all of them are in the
    /// order of when they begin.
    pub fn of(self, at_ms: u64) -> String {
        let text = timestamp(at_ms);
        text.get(..self.len()).unwrap_or(&text).to_owned()
    }

    const fn len(self) -> usize {
        match self {
            Self::Month => "2026-11".len(),
            Self::Day => "2026-11-25".len(),
            Self::Hour => "2026-11-25T07".len(),
        }
    }

    /// When a period ends, by when it begins.
    fn ends(self, begins: DateTime<Utc>) -> Option<DateTime<Utc>> {
        match self {
            Self::Month => begins.checked_add_months(Months::new(1)),
            Self::Day => begins.checked_add_signed(TimeDelta::days(1)),
            Self::Hour => begins.checked_add_signed(TimeDelta::hours(1)),
        }
    }

    /// Which one it is whose text has this form.
    fn named(text: &str) -> Option<Self> {
        [Self::Month, Self::Day, Self::Hour].into_iter().find(|period| period.len() == text.len())
    }
}

/// Whether it is the name of a period.
pub fn is_period(text: &str) -> bool {
    span(text).is_some()
}

/// When a period begins and ends, in ms since the epoch; `None` for what is none.
fn span(text: &str) -> Option<(u64, u64)> {
    let period = Period::named(text)?;
    let first = "0000-01-01T00:00:00Z";
    let begins = format!("{text}{}", first.get(text.len()..)?);
    let begins = DateTime::parse_from_rfc3339(&begins).ok()?.to_utc();
    let at = |moment: DateTime<Utc>| u64::try_from(moment.timestamp_millis()).ok();
    Some((at(begins)?, at(period.ends(begins)?)?))
}
/// How much later than now a layout, and a move, must begin, in ms: an isolate may go by what it read some seconds ago.
pub const LEAD_MS: u64 = 60_000;
/// For how long after a move begins messages may still be written to where they belonged before, in ms: a job takes at most 90 s.
pub const STRAGGLE_MS: u64 = 120_000;

/// Who stands for all owners in a layout's spread.
pub const ALL: &str = "all";

/// How payments that are made from a moment on are spread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    /// Its number: the first part of the names of its shards.
    pub layout_id: u64,
    /// From when on payments that are made are its, in ms since the epoch.
    pub from_ms: u64,
    /// Over how many shards a period; 0: they stay in D1.
    pub slots: u32,
    /// Of how long a time the payments of a shard are.
    #[serde(default)]
    pub period: Period,
    /// Over how many of these an owner's payments are spread, where it is not one; under [`ALL`] those of all whom it does not name.
    #[serde(default)]
    pub spread: BTreeMap<String, u32>,
    /// Payments in D1 that were made since then are its, too, in ms since the epoch …
    #[serde(default)]
    pub moved_since_ms: Option<u64>,
    /// … from this moment on, in ms since the epoch.
    #[serde(default)]
    pub moved_at_ms: Option<u64>,
}

/// The name of a shard.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardName {
    /// The [period](Period) in which its payments were made: `2026-11`. First: so the order of names is that of time.
    pub period: String,
    /// Whose layout it is.
    pub layout_id: u64,
    /// Which of the slots.
    pub slot: u32,
}

impl fmt::Display for ShardName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "g{}-{}-{:03}", self.layout_id, self.period, self.slot)
    }
}

impl ShardName {
    /// Reads a name.
    pub fn parse(text: &str) -> Option<Self> {
        let (layout_id, rest) = text.strip_prefix('g')?.split_once('-')?;
        let (period, slot) = rest.rsplit_once('-')?;
        let name =
            Self { period: period.to_owned(), layout_id: layout_id.parse().ok()?, slot: slot.parse().ok()? };
        (span(period).is_some() && name.to_string() == text).then_some(name)
    }

    /// When the first of its payments may have been made, in ms since the epoch.
    pub fn begins_ms(&self) -> u64 {
        span(&self.period).map_or(0, |(begins_ms, _)| begins_ms)
    }

    /// When the last of its payments may have been made: before this moment, in ms since the epoch.
    pub fn ends_ms(&self) -> u64 {
        span(&self.period).map_or(u64::MAX, |(_, ends_ms)| ends_ms)
    }
}

/// Where the rows of a payment stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home {
    /// The shard; `None` is D1.
    pub shard: Option<ShardName>,
    /// It was made in D1 and is moved: what is not there yet is still here.
    pub was_in_d1: bool,
}

/// Where the rows of a payment stand at `now_ms`: of this owner, made at this moment (in ms since the epoch), in this object.
pub fn home(layouts: &[Layout], owner: &str, made_at_ms: u64, object: &str, now_ms: u64) -> Home {
    let shard = |layout: &Layout| ShardName {
        period: layout.period.of(made_at_ms),
        layout_id: layout.layout_id,
        slot: layout.slot(owner, object),
    };
    match in_force(layouts, made_at_ms) {
        Some(layout) if layout.slots > 0 => Home { shard: Some(shard(layout)), was_in_d1: false },
        _ => {
            let mover = layouts.iter().filter(|layout| layout.moves(made_at_ms, now_ms));
            // The first one keeps what it has taken.
            let first = mover.min_by_key(|layout| (layout.moved_at_ms, layout.layout_id));
            Home { shard: first.map(shard), was_in_d1: first.is_some() }
        }
    }
}

/// The same by layouts that were read some time ago, at `read_at_ms`. `None` where one that was set since, or a move that was begun since, may say
/// otherwise: both begin [`LEAD_MS`] later than an operator asks for them. Half of this is left for the setting itself.
pub fn home_by(
    layouts: &[Layout],
    read_at_ms: u64,
    owner: &str,
    made_at_ms: u64,
    object: &str,
    now_ms: u64,
) -> Option<Home> {
    let sure_until_ms = read_at_ms.saturating_add(LEAD_MS / 2);
    let home = home(layouts, owner, made_at_ms, object, now_ms);
    // What was made in a shard is moved nowhere; what was made in D1 may be.
    let stays = home.shard.is_some() && !home.was_in_d1;
    (made_at_ms < sure_until_ms && (stays || now_ms < sure_until_ms)).then_some(home)
}

/// The layout of payments that are made at a moment; `None` before the first.
pub fn in_force(layouts: &[Layout], made_at_ms: u64) -> Option<&Layout> {
    let begun = layouts.iter().filter(|layout| layout.from_ms <= made_at_ms);
    begun.max_by_key(|layout| (layout.from_ms, layout.layout_id))
}

/// Whether a payment that was made in D1 at a moment is to be moved, or was.
pub fn is_moved(layouts: &[Layout], made_at_ms: u64) -> bool {
    in_force(layouts, made_at_ms).is_none_or(|layout| layout.slots == 0)
        && layouts.iter().any(|layout| layout.moves(made_at_ms, u64::MAX))
}

/// The periods of the shards to which a payment that was made in D1 at a moment is to be moved, or was.
pub fn moved_to(layouts: &[Layout], made_at_ms: u64) -> Vec<String> {
    let moving = layouts.iter().filter(|layout| layout.moves(made_at_ms, u64::MAX));
    moving.map(|layout| layout.period.of(made_at_ms)).collect()
}

/// Whether payments of an owner may stand in a shard. Those of an owner whose spread was changed meanwhile are in other slots of another layout.
#[cfg(test)]
fn may_have(layouts: &[Layout], owner: &str, shard: &ShardName) -> bool {
    let layout = layouts.iter().find(|layout| layout.layout_id == shard.layout_id);
    layout.is_some_and(|layout| layout.slots_of(owner).contains(&shard.slot))
}

/// When the payments of a shard may have been made: since then, and before then, in ms since the epoch. A layout has none that was made after a later
/// one began, and none that was made before it began, but for those that are moved.
pub fn made_between(layouts: &[Layout], shard: &ShardName) -> (u64, u64) {
    let (begins_ms, ends_ms) = span(&shard.period).unwrap_or((0, u64::MAX));
    let Some(layout) = layouts.iter().find(|layout| layout.layout_id == shard.layout_id) else {
        return (begins_ms, ends_ms);
    };
    let later = layouts.iter().map(|other| other.from_ms).filter(|from_ms| *from_ms > layout.from_ms).min();
    let begins_ms = if layout.moved_at_ms.is_some() { begins_ms } else { begins_ms.max(layout.from_ms) };
    (begins_ms, ends_ms.min(later.unwrap_or(u64::MAX)))
}

/// Which shards are written down with this one. Where periods are short all that a period may have are: each isolate meets each of them anew, and asks
/// so once. What is of a time that is over comes from a move, and there may be little of it.
pub fn written_down_with(layouts: &[Layout], shard: &ShardName, now_ms: u64) -> Vec<String> {
    let layout = layouts.iter().find(|layout| layout.layout_id == shard.layout_id);
    let is_whole = |layout: &&Layout| layout.period != Period::Month && shard.ends_ms() > now_ms;
    match layout.filter(is_whole) {
        Some(layout) => {
            (0..layout.slots).map(|slot| ShardName { slot, ..shard.clone() }.to_string()).collect()
        }
        None => vec![shard.to_string()],
    }
}

/// An hour between the beginnings of two periods, which `chance` says.
pub fn hour_between(first: &str, last: &str, chance: u64) -> Option<String> {
    let ((first_ms, _), (last_ms, _)) = (span(first)?, span(last)?);
    let hours = last_ms.saturating_sub(first_ms) / 3_600_000 + 1;
    Some(Period::Hour.of(first_ms + chance.checked_rem(hours)? * 3_600_000))
}

impl Layout {
    fn slot(&self, owner: &str, object: &str) -> u32 {
        self.nth_slot(owner, hash("object", object) % self.spread_of(owner))
    }

    /// The slots in which an owner's payments may be.
    pub fn slots_of(&self, owner: &str) -> BTreeSet<u32> {
        sorted::set((0..self.spread_of(owner)).map(|offset| self.nth_slot(owner, offset)))
    }

    /// The same, as the directory has them.
    pub fn named_slots_of(&self, owner: &str) -> Vec<String> {
        self.slots_of(owner).into_iter().map(|slot| format!("g{}-{slot:03}", self.layout_id)).collect()
    }

    fn nth_slot(&self, owner: &str, offset: u64) -> u32 {
        u32::try_from(hash("owner", owner).wrapping_add(offset) % u64::from(self.slots.max(1))).unwrap_or(0)
    }

    fn spread_of(&self, owner: &str) -> u64 {
        let spread = self.spread.get(owner).or_else(|| self.spread.get(ALL));
        spread.copied().unwrap_or(1).clamp(1, self.slots.max(1)).into()
    }

    /// Whether a payment that was made in D1 at a moment counts as moved here.
    fn moves(&self, made_at_ms: u64, now_ms: u64) -> bool {
        self.slots > 0
            && self.moved_since_ms.is_some_and(|since_ms| since_ms <= made_at_ms)
            && self.moved_at_ms.is_some_and(|at_ms| at_ms <= now_ms)
            && made_at_ms < self.from_ms
    }
}

/// A number that stands for a name. Shifted, so that sums stay far from where they would wrap.
fn hash(what: &str, name: &str) -> u64 {
    let hash = digest(&[b"shard", what.as_bytes(), name.as_bytes()]);
    hash.iter().take(7).fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOV: u64 = 1_793_491_200_000;
    const DAY: u64 = 86_400_000;

    fn layout(layout_id: u64, from_ms: u64, slots: u32) -> Layout {
        let (period, spread) = (Period::Month, BTreeMap::new());
        Layout { layout_id, from_ms, slots, period, spread, moved_since_ms: None, moved_at_ms: None }
    }

    fn name(layouts: &[Layout], owner: &str, made_at_ms: u64, object: &str, now_ms: u64) -> String {
        let home = home(layouts, owner, made_at_ms, object, now_ms);
        home.shard.map_or("D1".to_owned(), |shard| shard.to_string())
    }

    #[test]
    fn before_the_first_layout_all_is_in_d1_and_after_it_in_the_shards_of_its_month() {
        let layouts = [layout(1, NOV, 10)];
        assert_eq!(name(&[], "account:a", NOV, "o", NOV), "D1");
        assert_eq!(name(&layouts, "account:a", NOV - 1, "o", NOV), "D1");
        assert!(name(&layouts, "account:a", NOV, "o", NOV).starts_with("g1-2026-11-00"));
        assert!(name(&layouts, "account:a", NOV + 31 * DAY, "o", NOV).starts_with("g1-2026-12-00"));
    }

    /// Whatever an operator sets or moves at any time: what is known from before says the same, or says nothing.
    #[test]
    fn layouts_that_were_read_before_others_were_set_never_say_otherwise() {
        let moving = |mut layout: Layout, since_ms, at_ms| {
            (layout.moved_since_ms, layout.moved_at_ms) = (Some(since_ms), Some(at_ms));
            layout
        };
        let set_ms = NOV + DAY;
        let begins_ms = set_ms + LEAD_MS;
        let first = layout(1, NOV, 10);
        let changes = [
            (vec![], vec![layout(1, begins_ms, 10)]),
            (vec![first.clone()], vec![first.clone(), layout(2, begins_ms, 30)]),
            (vec![first.clone()], vec![first.clone(), layout(2, begins_ms, 0)]),
            (vec![first.clone()], vec![moving(first.clone(), 0, begins_ms)]),
            // One that was to move later.
            (
                vec![moving(first.clone(), 0, begins_ms + LEAD_MS)],
                vec![moving(first, 0, begins_ms + LEAD_MS), moving(layout(2, begins_ms, 30), 0, begins_ms)],
            ),
        ];
        let (mut said, mut silent) = (0, 0);
        for (before, after) in changes {
            for minutes in 0..8 {
                let now_ms = set_ms + minutes * LEAD_MS / 2;
                for made_at_ms in [NOV - DAY, NOV, set_ms - 1, set_ms, begins_ms - 1, begins_ms, now_ms] {
                    // The setting takes some seconds.
                    let told = home_by(&before, set_ms + 5_000, "account:a", made_at_ms, "o", now_ms);
                    let newer = home(&after, "account:a", made_at_ms, "o", now_ms);
                    match told {
                        Some(told) => {
                            assert_eq!(told, newer, "made at {made_at_ms}, at {now_ms}: {after:?}");
                            said += 1;
                        }
                        None => silent += 1,
                    }
                }
            }
        }
        assert!(said > 50 && silent > 50, "{said} said, {silent} not");
    }

    /// Payments of a shard go on there while D1 does not answer, however long.
    #[test]
    fn what_was_made_in_a_shard_is_known_to_stay_there() {
        let layouts = [layout(1, NOV, 10)];
        let by = |made_at_ms, now_ms| home_by(&layouts, NOV + DAY, "account:a", made_at_ms, "o", now_ms);
        assert!(by(NOV, NOV + 9 * DAY).is_some_and(|home| home.shard.is_some()));
        assert_eq!(by(NOV + 2 * DAY, NOV + 2 * DAY), None);
        assert!(by(NOV - 1, NOV + DAY + 1).is_some_and(|home| home.shard.is_none()));
        assert_eq!(by(NOV - 1, NOV + 2 * DAY), None, "it may be moved meanwhile");
    }

    #[test]
    fn names_are_in_the_order_of_time_whatever_their_periods() {
        let at =
            |layout_id, period: Period, at_ms| ShardName { period: period.of(at_ms), layout_id, slot: 0 };
        let names = [
            at(1, Period::Month, NOV - DAY),
            at(1, Period::Month, NOV),
            at(9, Period::Day, NOV),
            at(10, Period::Hour, NOV),
            at(2, Period::Hour, NOV + 3_600_000),
            at(3, Period::Day, NOV + DAY),
            at(2, Period::Month, NOV + 30 * DAY),
        ];
        assert!(names.is_sorted());
        for name in &names {
            assert_eq!(ShardName::parse(&name.to_string()).as_ref(), Some(name));
        }
        let texts = names.each_ref().map(ShardName::to_string);
        assert_eq!(texts[2..4], ["g9-2026-11-01-000", "g10-2026-11-01T00-000"]);
        let ends = names.each_ref().map(ShardName::ends_ms);
        assert_eq!(
            ends,
            [NOV, NOV + 30 * DAY, NOV + DAY, NOV + 3_600_000, NOV + 7_200_000, NOV + 2 * DAY, NOV + 61 * DAY]
        );
    }

    #[test]
    fn the_payments_of_a_shard_were_made_while_its_layout_was_in_force() {
        let of = |layout_id, from_ms, period| Layout { period, ..layout(layout_id, from_ms, 3) };
        let layouts = [
            of(1, NOV, Period::Month),
            of(2, NOV + 5 * DAY + 7_000, Period::Day),
            of(3, NOV + 8 * DAY + 9_000, Period::Hour),
            of(4, NOV + 9 * DAY, Period::Month),
        ];
        for at_ms in (0..2_000).map(|number| NOV + number * 700_000) {
            let shard = home(&layouts, "account:a", at_ms, "o", at_ms).shard.unwrap();
            let (since_ms, until_ms) = made_between(&layouts, &shard);
            assert!((since_ms..until_ms).contains(&at_ms), "{shard}");
        }
        let between = |name: &str| made_between(&layouts, &ShardName::parse(name).unwrap());
        assert_eq!(between("g1-2026-11-000"), (NOV, NOV + 5 * DAY + 7_000), "the next layout ends it");
        assert_eq!(between("g2-2026-11-06-000"), (NOV + 5 * DAY + 7_000, NOV + 6 * DAY));
        assert_eq!(between("g4-2026-11-000"), (NOV + 9 * DAY, NOV + 30 * DAY));
        let moving = [Layout { moved_at_ms: Some(0), ..layouts[3].clone() }];
        assert_eq!(
            made_between(&moving, &ShardName::parse("g4-2026-11-000").unwrap()).0,
            NOV,
            "some are moved there"
        );
    }

    #[test]
    fn what_all_owners_have_is_theirs_whom_a_spread_does_not_name() {
        let mut layout = Layout { period: Period::Day, ..layout(1, NOV, 480) };
        layout.spread = BTreeMap::from([(ALL.to_owned(), 40), ("account:large".to_owned(), 100)]);
        assert_eq!((layout.slots_of("account:a").len(), layout.slots_of("account:large").len()), (40, 100));
        assert!(
            layout.named_slots_of("account:a").iter().all(|slot| slot.starts_with("g1-") && slot.len() == 6)
        );
    }

    #[test]
    fn as_many_shops_are_in_the_fullest_slot_as_the_table_of_the_scale_says() {
        let fullest = |spread| {
            let mut layout = Layout { period: Period::Day, ..layout(1, NOV, 480) };
            layout.spread.insert(ALL.to_owned(), spread);
            let mut slots = BTreeMap::<u32, u32>::new();
            for slot in (0..400).flat_map(|shop| layout.slots_of(&format!("account:shop-{shop}"))) {
                *slots.entry(slot).or_default() += 1;
            }
            slots.into_values().max().unwrap()
        };
        assert_eq!((fullest(1), fullest(40)), (4, 45));
    }

    #[test]
    fn the_shards_of_a_short_period_are_written_down_together_while_it_lasts() {
        let layouts = [layout(1, NOV, 4), Layout { period: Period::Day, ..layout(2, NOV + DAY, 4) }];
        let written =
            |name: &str, now_ms| written_down_with(&layouts, &ShardName::parse(name).unwrap(), now_ms);
        assert_eq!(written("g1-2026-11-001", NOV), ["g1-2026-11-001"]);
        let all: Vec<String> = (0..4).map(|slot| format!("g2-2026-11-03-00{slot}")).collect();
        assert_eq!(written("g2-2026-11-03-001", NOV + 2 * DAY), all);
        assert_eq!(written("g2-2026-11-03-001", NOV + 3 * DAY), ["g2-2026-11-03-001"], "it is moved there");
        assert_eq!(
            written("g7-2026-11-03-001", NOV),
            ["g7-2026-11-03-001"],
            "of a layout that is not known yet"
        );
    }

    #[test]
    fn a_name_is_read_as_it_is_written() {
        let shard = ShardName { period: "2026-11".to_owned(), layout_id: 12, slot: 7 };
        assert_eq!(ShardName::parse("g12-2026-11-007"), Some(shard));
        for other in [
            "",
            "g1",
            "g1-2026-11",
            "x1-2026-11-001",
            "g1-2026-11-1",
            "g01-2026-11-001",
            "g1-2026-13-001",
            "g1-2026-11-25T-001",
        ] {
            assert_eq!(ShardName::parse(other), None, "{other}");
        }
    }

    #[test]
    fn a_place_never_changes_by_later_layouts_nor_by_the_clock() {
        let first = layout(1, NOV, 10);
        let later = [
            vec![first.clone()],
            vec![first.clone(), layout(2, NOV + DAY, 20)],
            vec![first.clone(), layout(2, NOV + DAY, 0), layout(3, NOV + 2 * DAY, 3)],
            vec![first, Layout { moved_since_ms: Some(0), moved_at_ms: Some(0), ..layout(2, NOV + DAY, 5) }],
        ];
        for number in 0..200 {
            let (owner, object) = (format!("account:{}", number % 7), format!("{number:064x}"));
            let at = |layouts: &[Layout], now_ms| name(layouts, &owner, NOV + number, &object, now_ms);
            let was = at(&later[0], NOV);
            for layouts in &later {
                assert_eq!(at(layouts, NOV), was);
                assert_eq!(at(layouts, NOV + 100 * DAY), was);
            }
        }
    }

    #[test]
    fn payments_are_spread_evenly_and_an_account_over_no_more_than_its_spread() {
        let mut layout = layout(1, NOV, 10);
        layout.spread = BTreeMap::from([("account:large".to_owned(), 4), ("account:all".to_owned(), 99)]);
        let layouts = [layout.clone()];
        let shards = |owner: &str, objects: u32| {
            let mut counts = BTreeMap::<u32, u32>::new();
            for object in 0..objects {
                let home = home(&layouts, owner, NOV, &format!("{object:064x}"), NOV);
                let shard = home.shard.unwrap();
                assert!(may_have(&layouts, owner, &shard));
                *counts.entry(shard.slot).or_default() += 1;
            }
            counts
        };
        assert_eq!(shards("account:small", 500).len(), 1);
        assert_eq!(shards("account:large", 4000).len(), 4);
        for (owner, slots) in [("account:large", 4), ("account:all", 10)] {
            for count in shards(owner, 1000 * slots).values() {
                assert!((900..1100).contains(count), "{count} of 1000");
            }
        }
        let mut by_owner = BTreeMap::<u32, u32>::new();
        for owner in 0..5_000 {
            *by_owner.entry(layout.slot(&format!("account:{owner}"), "o")).or_default() += 1;
        }
        assert_eq!(by_owner.len(), 10);
        assert!(by_owner.values().all(|count| (400..600).contains(count)), "{by_owner:?}");
        let other = ShardName {
            slot: (layout.slot("account:small", "o") + 1) % 10,
            layout_id: 1,
            period: "2026-11".to_owned(),
        };
        assert!(!may_have(&layouts, "account:small", &other));
    }

    #[test]
    fn what_was_in_d1_is_moved_from_a_moment_on_and_the_first_layout_keeps_it() {
        let moving =
            Layout { moved_since_ms: Some(NOV - 10), moved_at_ms: Some(NOV + 50), ..layout(1, NOV, 4) };
        let later = Layout { moved_since_ms: Some(0), moved_at_ms: Some(NOV + 90), ..layout(2, NOV + 60, 8) };
        let layouts = [moving, later];
        let at = |made_at_ms, now_ms| home(&layouts, "account:a", made_at_ms, "o", now_ms);
        assert_eq!(at(NOV - 10, NOV + 49), Home { shard: None, was_in_d1: false });
        let moved = at(NOV - 10, NOV + 50);
        assert!(moved.was_in_d1);
        assert_eq!(moved.shard.as_ref().unwrap().layout_id, 1);
        assert_eq!(at(NOV - 10, NOV + 1000), moved, "the second one leaves it");
        assert_eq!(at(NOV - 11, NOV + 89).shard, None);
        assert_eq!(at(NOV - 11, NOV + 90).shard.unwrap().layout_id, 2);
        assert!(!at(NOV, NOV + 1000).was_in_d1, "it was made there");
    }

    #[test]
    fn back_to_d1_is_a_layout_without_slots() {
        let layouts = [layout(1, NOV, 4), layout(2, NOV + DAY, 0)];
        assert!(home(&layouts, "account:a", NOV, "o", NOV + 2 * DAY).shard.is_some());
        assert_eq!(home(&layouts, "account:a", NOV + DAY, "o", NOV + 2 * DAY).shard, None);
    }
}
