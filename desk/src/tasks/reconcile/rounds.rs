//! Goes round all shards for a set of books, a part of them in each run: for payments that are in no list, and for money that is late.
//!
//! - The newest shards are asked first. How far a round has come is written down in D1: a run that is broken off is followed by one that goes on
//!   there. A shard that is new meanwhile has its turn in the next round.
//! - A shard that does not answer holds up no other. It is asked again in the next round, and this one does not count as whole.
//! - D1 is no part of a round: each run asks it first. So what the mover takes from there to a shard meanwhile was seen, and is seen again.
//! - Two runs at once find the same. Who is behind the other stops.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use worker::{Error, Result};

use super::recheck::UNLISTED_OF_A_SHARD_MAX;
use super::session::{Reconciliation, newest};
use crate::tasks::breaks::{BATCHES_MAX, BREAKS_MAX};
use crate::tasks::compare::LocalRecord;
use crate::tasks::run_limits::{Used, may_read};
use messages::placement::ShardName;
use runtime::db::{self, Db, Statement};
use runtime::places;

/// How many shards one run asks. Its accounts share them.
pub(super) const SHARDS_MAX: u32 = 1_000;
/// How many are asked before what they have is looked at.
const CHUNK: usize = 24;
/// After how many of these it is written down how far the round has come.
const SAVED_AFTER: usize = 10;
/// How long a run may have taken when it asks more, in ms: shards that do not answer take five seconds.
const WALKED_MAX_MS: u64 = 300_000;

/// The round of the books `?1`.
const ROUND: &str = "SELECT through_ms, began_at_ms, after, is_left FROM reconcile_rounds WHERE name = ?1";
/// It has come so far, if it was where it was seen: begun at `?6`, behind `?7`.
const SAVE: &str = "INSERT INTO reconcile_rounds (name, through_ms, began_at_ms, after, is_left) VALUES (?1, ?2, ?3, ?4, ?5)
    ON CONFLICT (name) DO UPDATE SET through_ms = excluded.through_ms, began_at_ms = excluded.began_at_ms, after = excluded.after,
        is_left = excluded.is_left
    WHERE reconcile_rounds.began_at_ms IS ?6 AND reconcile_rounds.after IS ?7";
/// All were asked in one run, since none was under way.
const ALL_AT_ONCE: &str = "DELETE FROM reconcile_rounds WHERE name = ?1 AND began_at_ms IS NULL";

/// Whether a run that has used so much may ask more.
pub(super) const fn may_walk(used: Used) -> bool {
    used.ran_ms < WALKED_MAX_MS && may_read(used)
}

/// What a round asks.
pub(super) trait Places {
    /// The next shards behind this one, or the first, at most so many.
    async fn shards_behind(&mut self, after: Option<&ShardName>, most: usize) -> Result<Vec<ShardName>>;
    /// Looks through these.
    async fn look(&mut self, shards: &[ShardName]) -> Result<Seen>;
    /// The rows of D1.
    async fn rows<T: DeserializeOwned>(&mut self, statement: Statement) -> Result<Vec<T>>;
    /// Changes D1. Gives how many rows.
    async fn run(&mut self, statement: Statement) -> Result<usize>;
    /// Whether this run may ask more.
    fn may_go_on(&self) -> bool;
}

/// What came of some shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// All that they have was looked at.
    All,
    /// Something is left to the next round.
    NotAll,
    /// There is more in them than a run looks at: the next one goes on with them.
    Again,
}

/// What a run has done for a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Walked {
    /// How many shards it asked.
    pub(super) shards: usize,
    /// A round is over with it that left nothing out.
    pub(super) is_whole: bool,
    /// How long ago the last whole round began, in ms.
    pub(super) lag_ms: u64,
}

/// A round, as D1 has it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
struct Round {
    through_ms: u64,
    began_at_ms: Option<u64>,
    after: Option<String>,
    is_left: u8,
}

impl Round {
    /// Begins one at this moment, if none is under way.
    fn under_way(stored: Option<&Self>, now_ms: u64) -> Self {
        match stored {
            Some(stored) if stored.began_at_ms.is_some() => stored.clone(),
            stored => Self {
                through_ms: stored.map_or(now_ms, |stored| stored.through_ms),
                began_at_ms: Some(now_ms),
                after: None,
                is_left: 0,
            },
        }
    }

    /// It has come to its end.
    fn ended(self) -> Self {
        let through_ms = match self.began_at_ms {
            Some(began_at_ms) if self.is_left == 0 => began_at_ms,
            _ => self.through_ms,
        };
        Self { through_ms, began_at_ms: None, after: None, is_left: 0 }
    }

    fn saved(&self, name: &str, stored: Option<&Self>) -> Statement {
        let text = |text: Option<&String>| db::Value::from(text.cloned());
        let number = |number: Option<u64>| number.map_or(db::Value::Null, db::Value::from);
        let values = vec![
            name.into(),
            self.through_ms.into(),
            number(self.began_at_ms),
            text(self.after.as_ref()),
            u64::from(self.is_left).into(),
            number(stored.and_then(|stored| stored.began_at_ms)),
            text(stored.and_then(|stored| stored.after.as_ref())),
        ];
        Statement::new(SAVE, values)
    }
}

/// Goes on with the round of these books: at most so many shards.
pub(super) async fn walk(places: &mut impl Places, name: &str, most: usize, now_ms: u64) -> Result<Walked> {
    let rows = places.rows(Statement::new(ROUND, vec![name.into()])).await?;
    let mut stored: Option<Round> = rows.into_iter().next();
    let mut round = Round::under_way(stored.as_ref(), now_ms);
    let after = round.after.as_deref().and_then(ShardName::parse);
    let mut shards = places.shards_behind(after.as_ref(), most + 1).await?;
    let mut is_over = shards.len() <= most;
    shards.truncate(most);
    let mut walked = Walked::default();
    for (position, chunk) in shards.chunks(CHUNK).enumerate() {
        if position > 0 && !places.may_go_on() {
            is_over = false;
            break;
        }
        if position > 0 && position % SAVED_AFTER == 0 {
            if places.run(round.saved(name, stored.as_ref())).await? == 0 {
                walked.lag_ms = now_ms.saturating_sub(round.through_ms);
                return Ok(walked);
            }
            stored = Some(round.clone());
        }
        let seen = places.look(chunk).await?;
        walked.shards += chunk.len();
        if seen == Seen::Again {
            is_over = false;
            break;
        }
        round.is_left |= u8::from(seen == Seen::NotAll);
        round.after = chunk.last().map(ShardName::to_string);
    }
    walked.is_whole = is_over && round.is_left == 0;
    if is_over {
        round = round.ended();
    }
    let is_stored = stored.as_ref().is_some_and(|stored| stored.began_at_ms.is_some());
    match (walked.is_whole && !is_stored, &stored) {
        (true, None) => {}
        (true, Some(_)) => drop(places.run(Statement::new(ALL_AT_ONCE, vec![name.into()])).await?),
        (false, stored) => drop(places.run(round.saved(name, stored.as_ref())).await?),
    }
    walked.lag_ms = now_ms.saturating_sub(round.through_ms);
    Ok(walked)
}

/// What is looked for in the shards.
pub(super) struct Wanted {
    /// Payments that are in no list.
    pub(super) unlisted: Option<Statement>,
    /// Money that is late: closes what is over, and opens what is new.
    pub(super) unmoved: Option<[Statement; 2]>,
}

/// A run's part of a round.
struct Part<'a> {
    run: &'a mut Reconciliation,
    wanted: Wanted,
    /// How many unlisted payments may be asked for yet.
    unlisted_left: usize,
    unmoved: usize,
    errors: Vec<Error>,
}

impl Reconciliation {
    /// Goes on with the round of the current books. Returns what was done, how much money is late, and what failed.
    pub(super) async fn walk_shards(
        &mut self,
        wanted: Wanted,
        unlisted_most: u32,
    ) -> (Walked, usize, Vec<Error>) {
        if !places::is_bound(&self.env) || wanted.unlisted.is_none() && wanted.unmoved.is_none() {
            return (Walked { is_whole: true, ..Walked::default() }, 0, Vec::new());
        }
        let most = usize::try_from(self.share_of(SHARDS_MAX)).unwrap_or(usize::MAX);
        let (name, now_ms) = (self.books.label.clone().unwrap_or_default(), self.now_ms);
        let unlisted_left = usize::try_from(unlisted_most).unwrap_or(usize::MAX);
        let mut part = Part { run: self, wanted, unlisted_left, unmoved: 0, errors: Vec::new() };
        let walked = walk(&mut part, &name, most, now_ms).await;
        let Part { unmoved, mut errors, .. } = part;
        let walked = walked.map_err(|error| errors.push(error)).unwrap_or_default();
        (walked, unmoved, errors)
    }
}

impl Part<'_> {
    /// Compares what is in no list with the provider's books. Gives whether all of it was.
    async fn check_unlisted(&mut self, rows: Vec<LocalRecord>) -> Result<Seen> {
        if rows.is_empty() {
            return Ok(Seen::All);
        }
        let mut rows = self.run.without_known(newest(rows)).await?;
        rows.sort_by_key(|row| row.updated_at_ms);
        let is_more = rows.len() > self.unlisted_left;
        rows.truncate(self.unlisted_left);
        self.unlisted_left -= rows.len();
        Ok(match self.run.compare_unlisted(&rows).await {
            Ok(()) if is_more => Seen::Again,
            Ok(()) => Seen::All,
            Err(error) => {
                self.errors.push(error);
                Seen::NotAll
            }
        })
    }
}

impl Places for Part<'_> {
    async fn shards_behind(&mut self, after: Option<&ShardName>, most: usize) -> Result<Vec<ShardName>> {
        self.run.count_queries(1);
        match self.run.books.owners() {
            Some(owners) => self.run.model.shards_of_behind(&owners, after, most).await,
            None => self.run.model.shards_behind(after, most).await,
        }
    }

    async fn look(&mut self, shards: &[ShardName]) -> Result<Seen> {
        let dbs = shards.iter().map(|name| places::shard(&self.run.env, name)).collect();
        let Wanted { unlisted, unmoved } = &self.wanted;
        let answers = self
            .run
            .model
            .each(dbs, async |db: Db| look_into(&db, unlisted.as_ref(), unmoved.as_ref()).await);
        let answers = answers.await?;
        self.run.used.places += u32::try_from(shards.len()).unwrap_or(u32::MAX);
        self.run.used.ran_ms = runtime::now_ms().saturating_sub(self.run.now_ms);
        let is_silent = answers.len() < shards.len();
        let mut rows = Vec::new();
        let mut is_full = false;
        for (_, looked) in answers {
            self.run.resolved += looked.gone;
            self.unmoved += looked.flagged;
            is_full |=
                looked.unlisted.len() >= usize::try_from(UNLISTED_OF_A_SHARD_MAX).unwrap_or(usize::MAX);
            rows.extend(looked.unlisted);
        }
        let seen = self.check_unlisted(rows).await?;
        Ok(if seen == Seen::All && (is_silent || is_full) { Seen::NotAll } else { seen })
    }

    async fn rows<T: DeserializeOwned>(&mut self, statement: Statement) -> Result<Vec<T>> {
        self.run.rows(&statement.sql, statement.values).await
    }

    async fn run(&mut self, statement: Statement) -> Result<usize> {
        self.run.run(&statement.sql, statement.values).await
    }

    fn may_go_on(&self) -> bool {
        may_walk(self.run.used)
    }
}

/// What one shard has said.
#[derive(Default)]
struct Looked {
    unlisted: Vec<LocalRecord>,
    gone: usize,
    flagged: usize,
}

/// Looks into one shard: in one request, unless there is very much money that is late.
async fn look_into(
    db: &Db,
    unlisted: Option<&Statement>,
    unmoved: Option<&[Statement; 2]>,
) -> Result<Looked> {
    let statements: Vec<Statement> = unmoved.into_iter().flatten().chain(unlisted).cloned().collect();
    let (changes, rows) = db.batch_rows(statements).await?;
    let mut looked = Looked { unlisted: rows, ..Looked::default() };
    let Some([_, flag]) = unmoved else { return Ok(looked) };
    looked.gone = changes.first().copied().unwrap_or(0);
    let mut flagged = changes.get(1).copied().unwrap_or(0);
    for _ in 1..BATCHES_MAX {
        looked.flagged += flagged;
        if flagged < BREAKS_MAX {
            return Ok(looked);
        }
        flagged = db.run(&flag.sql, flag.values.clone()).await?;
    }
    looked.flagged += flagged;
    Ok(looked)
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::cmp::Reverse;
    use std::collections::{BTreeMap, BTreeSet};
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    use rusqlite::Connection;

    use super::*;
    use crate::tasks::late::tests::read_model;
    use crate::tasks::simulation::{Rng, bound, execute, turn};

    /// How many shards a run asks, and how many of their payments it compares.
    const MOST: usize = 300;
    const COMPARED: u32 = 5;
    const NAME: &str = "keys:a";

    /// What protects the round, and is switched off to see that this is found.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Disabled {
        Nothing,
        /// How far a round has come is forgotten.
        Cursor,
        /// A shard that does not answer counts as looked at.
        Silence,
        /// What is more than a run compares is left where it is.
        Again,
    }

    /// Which shards there are, and how many payments of each are to be found.
    struct World {
        d1: Connection,
        shards: RefCell<BTreeMap<ShardName, u32>>,
        silent: RefCell<BTreeSet<ShardName>>,
        asked: Cell<usize>,
        off: Disabled,
    }

    /// One run.
    struct Run<'a> {
        world: &'a World,
        compared_left: u32,
    }

    impl Places for Run<'_> {
        async fn shards_behind(&mut self, after: Option<&ShardName>, most: usize) -> Result<Vec<ShardName>> {
            turn().await;
            let after = after.filter(|_| self.world.off != Disabled::Cursor);
            let order = |shard: &ShardName| (format!("{}~", shard.period), shard.to_string());
            let mut shards: Vec<ShardName> = self.world.shards.borrow().keys().cloned().collect();
            let after = after.map(order);
            shards.retain(|shard| after.as_ref().is_none_or(|after| order(shard) < *after));
            shards.sort_by_cached_key(|shard| Reverse(order(shard)));
            shards.truncate(most);
            Ok(shards)
        }

        async fn look(&mut self, shards: &[ShardName]) -> Result<Seen> {
            let World { asked, off, .. } = self.world;
            asked.set(asked.get() + shards.len());
            let mut seen = Seen::All;
            for shard in shards {
                turn().await;
                let mut all = self.world.shards.borrow_mut();
                let Some(found) = all.get_mut(shard) else { continue };
                if self.world.silent.borrow().contains(shard) {
                    seen = if *off == Disabled::Silence { seen } else { Seen::NotAll };
                    continue;
                }
                let compared = self.compared_left.min(*found);
                (*found, self.compared_left) = (*found - compared, self.compared_left - compared);
                if *found > 0 && *off != Disabled::Again {
                    return Ok(Seen::Again);
                }
            }
            Ok(seen)
        }

        async fn rows<T: DeserializeOwned>(&mut self, statement: Statement) -> Result<Vec<T>> {
            turn().await;
            let round = self.world.d1.prepare_cached(&statement.sql).unwrap().query_row(
                bound(&statement.values),
                |row| {
                    Ok(serde_json::json!({
                        "through_ms": row.get::<_, i64>(0)?, "began_at_ms": row.get::<_, Option<i64>>(1)?,
                        "after": row.get::<_, Option<String>>(2)?, "is_left": row.get::<_, i64>(3)?,
                    }))
                },
            );
            round.ok().into_iter().map(|round| Ok(serde_json::from_value(round)?)).collect()
        }

        async fn run(&mut self, statement: Statement) -> Result<usize> {
            turn().await;
            Ok(execute(&self.world.d1, &statement.sql, bound(&statement.values)).unwrap())
        }

        fn may_go_on(&self) -> bool {
            true
        }
    }

    fn shard(number: u32) -> ShardName {
        ShardName::parse(&format!("g1-2026-{:02}-{:03}", 1 + number / 100, number % 100)).unwrap()
    }

    fn world(shards: u32, off: Disabled) -> World {
        World {
            d1: read_model(),
            shards: RefCell::new(
                (0..shards).map(|number| (shard(number), u32::from(number % 97 == 3))).collect(),
            ),
            silent: RefCell::default(),
            asked: Cell::new(0),
            off,
        }
    }

    impl World {
        /// Some runs at once. Each may be killed, whatever it has come to.
        fn strike(&self, rng: &Rng, runs: usize, is_rough: bool, now_ms: u64) -> Vec<Walked> {
            let mut parts: Vec<_> = (0..runs).map(|_| Run { world: self, compared_left: COMPARED }).collect();
            let walks = parts.iter_mut().map(|run| {
                Box::pin(walk(run, NAME, MOST, now_ms)) as Pin<Box<dyn Future<Output = Result<Walked>>>>
            });
            let mut walks: Vec<_> = walks.collect();
            let mut done = Vec::new();
            let mut cx = Context::from_waker(Waker::noop());
            while !walks.is_empty() {
                let number = u64::try_from(walks.len()).unwrap();
                let at = usize::try_from(rng.roll(number)).unwrap();
                if let Poll::Ready(walked) = walks[at].as_mut().poll(&mut cx) {
                    done.push(walked.unwrap());
                    drop(walks.remove(at));
                } else if is_rough && rng.roll(600) == 0 {
                    drop(walks.remove(at));
                }
            }
            done
        }

        fn left(&self) -> u32 {
            self.shards.borrow().values().sum()
        }
    }

    /// Runs that are killed, two at once, with shards that do not answer for a while and shards that are new. Whenever one says that a round is whole
    /// nothing that was there when it began may be left. Gives what is left in the end, and whether that was broken.
    fn played(seed: u64, off: Disabled) -> (u32, bool) {
        let (world, rng) = (world(1_000, off), Rng::new(seed));
        world.silent.borrow_mut().extend([shard(100), shard(391), shard(888)]);
        let mut is_broken = false;
        // What was there at each moment is left for as long as this.
        let mut there: Vec<(u64, BTreeSet<ShardName>)> = Vec::new();
        for strike in 0..40_u64 {
            let now_ms = 1_000 * (strike + 1);
            let with_some = |world: &World| {
                let all = world.shards.borrow();
                all.iter().filter(|(_, found)| **found > 0).map(|(shard, _)| shard.clone()).collect()
            };
            there.push((now_ms, with_some(&world)));
            let is_rough = strike < 25;
            let runs = 1 + usize::from(is_rough && rng.roll(3) == 0);
            for walked in world.strike(&rng, runs, is_rough, now_ms) {
                let began_ms = now_ms - walked.lag_ms;
                let left: BTreeSet<ShardName> = with_some(&world);
                let then = there.iter().rfind(|(at_ms, _)| *at_ms <= began_ms).map(|(_, then)| then);
                is_broken |=
                    walked.is_whole && then.is_some_and(|then| then.intersection(&left).next().is_some());
            }
            match strike {
                // More than one run compares.
                7 => drop(world.shards.borrow_mut().insert(shard(950), 13)),
                9 => drop(world.shards.borrow_mut().insert(shard(1_001), 2)),
                14 => world.silent.borrow_mut().clear(),
                _ => {}
            }
        }
        (world.left(), is_broken)
    }

    #[test]
    fn all_shards_have_their_turn_wherever_runs_are_broken_off() {
        for seed in 1..=12 {
            assert_eq!(played(seed, Disabled::Nothing), (0, false), "seed {seed}");
        }
    }

    #[test]
    fn control_without_each_protection_something_is_left() {
        assert!((1..=12).all(|seed| played(seed, Disabled::Cursor).0 > 0));
        assert!((1..=12).any(|seed| played(seed, Disabled::Silence).1));
        assert!((1..=12).any(|seed| played(seed, Disabled::Again).1));
    }

    #[test]
    fn what_one_run_asks_is_asked_in_each_and_nothing_is_written_down() {
        let (world, rng) = (world(200, Disabled::Nothing), Rng::new(1));
        for strike in 1..=3 {
            let [walked] = world.strike(&rng, 1, false, strike)[..] else { panic!("one run") };
            assert_eq!(walked, Walked { shards: 200, is_whole: true, lag_ms: 0 });
            let rows = world.d1.query_row("SELECT count(*) FROM reconcile_rounds", (), |row| row.get(0));
            assert_eq!(rows.unwrap_or(-1), 0);
        }
        // One that does not answer is told of as long as it does not.
        world.silent.borrow_mut().insert(shard(7));
        assert!(!world.strike(&rng, 1, false, 10)[0].is_whole);
        let [walked] = world.strike(&rng, 1, false, 15)[..] else { panic!("one run") };
        assert_eq!((walked.is_whole, walked.lag_ms), (false, 5));
        world.silent.borrow_mut().clear();
        assert_eq!(world.strike(&rng, 1, false, 20), [Walked { shards: 200, is_whole: true, lag_ms: 0 }]);
    }

    #[test]
    fn a_round_says_how_long_it_takes() {
        let (world, rng) = (world(1_000, Disabled::Nothing), Rng::new(1));
        let walked: Vec<Walked> =
            (0..8).map(|strike| world.strike(&rng, 1, false, 100 * strike)[0]).collect();
        let lags: Vec<_> =
            walked.iter().map(|walked| (walked.shards, walked.is_whole, walked.lag_ms)).collect();
        let first = [(300, false, 0), (300, false, 100), (300, false, 200), (100, true, 300)];
        let second = [(300, false, 400), (300, false, 500), (300, false, 600), (100, true, 300)];
        assert_eq!(lags, [first, second].concat());
        assert_eq!(world.asked.get(), 2_000, "each once a round");
    }
}
