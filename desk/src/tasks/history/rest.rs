//! Lays shards to rest from which all has left: no list and no task asks them any more. How, so that nothing is written there unseen:
//! `runtime::rest`.

use serde::Deserialize;
use worker::Result;

use super::steps::{OfShard, Tables, VOID_MS};
use crate::tasks::shards::rows::{closed_breaks, copy_breaks};
use runtime::db::Statement;
use runtime::rest::WAKE;

/// D1: how often the shard `?1` was woken.
const WAKES: &str = "SELECT wakes FROM shards WHERE name = ?1";
/// The shard: it has nothing that a list shows or a task works on. Breaks that are closed stay: they say that they are not to be opened anew.
macro_rules! has_nothing {
    () => {
        "NOT EXISTS (SELECT 1 FROM payments) AND NOT EXISTS (SELECT 1 FROM keys) AND NOT EXISTS (SELECT 1 FROM refunds)
        AND NOT EXISTS (SELECT 1 FROM audit_records) AND NOT EXISTS (SELECT 1 FROM jobs)
        AND NOT EXISTS (SELECT 1 FROM breaks WHERE state = 'open') AND NOT EXISTS (SELECT 1 FROM settlement_late)"
    };
}
/// The shard: it is marked with `?1` if it has nothing, no batch is being written, and no file of a void one (since `?2`) may still be deleted. A
/// mark is never replaced by a smaller one.
const MARK: &str = concat!(
    "INSERT INTO shard_rest (id, mark) SELECT 1, ?1 WHERE ",
    has_nothing!(),
    "
        AND NOT EXISTS (SELECT 1 FROM history_batches WHERE state != 'written' AND (state = 'writing' OR changed_at_ms > ?2))
     ON CONFLICT (id) DO UPDATE SET mark = excluded.mark WHERE excluded.mark > shard_rest.mark"
);
const MARKED: &str = "SELECT mark FROM shard_rest";
/// The shard: it is as D1 says of one that rests. If not, that came about without this release: one before wakes no shard, and D1 may have been taken
/// back to an earlier moment.
const IS_AT_REST: &str =
    concat!("SELECT EXISTS (SELECT 1 FROM shard_rest) AND ", has_nothing!(), " AS is_at_rest");
/// D1: the shard `?1` rests since `?3`, if it was woken `?2` times.
const RESTS: &str =
    "UPDATE shards SET rests_since_ms = ?3 WHERE name = ?1 AND wakes = ?2 AND rests_since_ms IS NULL";

/// Lays a shard to rest, unless it has rows. Gives whether it rests.
pub(super) async fn lay<T: Tables>(tables: &T, shard: &OfShard<'_, T>, now_ms: u64) -> Result<bool> {
    #[derive(Deserialize)]
    struct Wakes {
        wakes: u64,
    }
    #[derive(Deserialize)]
    struct Marked {
        mark: u64,
    }
    let d1 = shard.d1;
    let wakes: Vec<Wakes> = d1.rows(WAKES, vec![shard.name.into()]).await?;
    let Some(Wakes { wakes }) = wakes.into_iter().next() else { return Ok(false) };
    let void_since_ms = now_ms.saturating_sub(VOID_MS);
    tables.batch(vec![(MARK, vec![wakes.into(), void_since_ms.into()])]).await?;
    let marked: Vec<Marked> = tables.rows(MARKED, vec![]).await?;
    if marked.first().is_none_or(|marked| marked.mark != wakes) {
        return Ok(false);
    }
    // From here on nothing changes in it unless somebody wakes it.
    show_closed_breaks(tables, d1).await?;
    let changed = d1.batch(vec![(RESTS, vec![shard.name.into(), wakes.into(), now_ms.into()])]).await?;
    Ok(changed.first().is_some_and(|rows| *rows > 0))
}

/// Looks whether a shard of which D1 says that it rests does, and wakes it otherwise: that may be done at any time. Gives whether it was woken.
pub(super) async fn check<T: Tables>(tables: &T, shard: &str, d1: &T) -> Result<bool> {
    #[derive(Deserialize)]
    struct Found {
        is_at_rest: u8,
    }
    let found: Vec<Found> = tables.rows(IS_AT_REST, vec![]).await?;
    if found.first().is_some_and(|found| found.is_at_rest == 1) {
        return Ok(false);
    }
    d1.batch(vec![(WAKE, vec![shard.into()])]).await?;
    Ok(true)
}

/// The breaks of a shard that are over are written down in D1, too, where the list of breaks goes on showing them.
async fn show_closed_breaks<T: Tables>(tables: &T, d1: &T) -> Result<()> {
    #[derive(Deserialize)]
    struct Text {
        break_id: String,
        row: String,
    }
    let mut after = String::new();
    loop {
        let rows: Vec<Text> = tables.rows(&closed_breaks(), vec![after.as_str().into()]).await?;
        let Some(last) = rows.last() else { return Ok(()) };
        after.clone_from(&last.break_id);
        let rows: Vec<String> = rows.into_iter().map(|text| text.row).collect();
        let Statement { sql, values } = copy_breaks(&serde_json::to_string(&rows)?);
        d1.batch(vec![(sql.as_str(), values)]).await?;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    use rusqlite::Connection;
    use serde_json::json;
    use worker::Error;

    use super::*;
    use crate::tasks::late::tests::read_model;
    use crate::tasks::simulation::{Rng, bound, execute, turn};
    use runtime::db::Value;
    use runtime::rest::{Asked, UNMARK, waking};

    const NAME: &str = "g1-2025-10-003";
    const NOW_MS: u64 = 1_900_000_000_000;

    /// What protects what is written, and is switched off to see that this is found.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Disabled {
        Nothing,
        /// D1 does not count who wakes a shard.
        Count,
        /// A shard takes what is written though it rests.
        Refusal,
        /// Whichever mark there is goes.
        Mark,
    }

    struct World {
        d1: Connection,
        shard: Connection,
        rng: Rng,
        written: Cell<u64>,
        off: Disabled,
    }

    /// A place of the world.
    struct At<'a>(&'a World, &'a Connection);

    fn run(db: &Connection, sql: &str, values: Vec<Value>) -> usize {
        execute(db, sql, bound(&values)).unwrap()
    }

    fn number(db: &Connection, sql: &str) -> Option<u64> {
        db.prepare_cached(sql).unwrap().query_row((), |row| row.get::<_, i64>(0)).ok().map(i64::cast_unsigned)
    }

    impl Tables for At<'_> {
        async fn rows<T: serde::de::DeserializeOwned>(
            &self,
            sql: &str,
            values: Vec<Value>,
        ) -> Result<Vec<T>> {
            turn().await;
            let rows: Vec<serde_json::Value> = match sql {
                WAKES => number(self.1, "SELECT wakes FROM shards")
                    .map(|wakes| json!({ "wakes": wakes }))
                    .into_iter()
                    .collect(),
                IS_AT_REST => vec![json!({ "is_at_rest": number(self.1, sql) })],
                MARKED => number(self.1, sql).map(|mark| json!({ "mark": mark })).into_iter().collect(),
                breaks => {
                    let Some(Value::Text(after)) = values.first() else { panic!("{breaks}") };
                    let mut statement = self.1.prepare_cached(breaks).unwrap();
                    let rows = statement.query_map((after,), |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
                    let rows = rows.map(Result::<(String, String), _>::unwrap);
                    rows.map(|(id, row)| json!({ "break_id": id, "row": row })).collect()
                }
            };
            rows.into_iter().map(|row| serde_json::from_value(row).map_err(Error::from)).collect()
        }

        async fn batch(&self, statements: Vec<(&str, Vec<Value>)>) -> Result<Vec<usize>> {
            turn().await;
            let run = |(sql, values): (&str, Vec<Value>)| match self.0.off {
                Disabled::Count => run(self.1, &sql.replace("wakes = ?2", "?2 IS NOT NULL"), values),
                _ => run(self.1, sql, values),
            };
            let changed = statements.into_iter().map(run).collect();
            turn().await;
            Ok(changed)
        }
    }

    impl World {
        fn new(seed: u64, off: Disabled) -> Self {
            let world = Self {
                d1: read_model(),
                shard: read_model(),
                rng: Rng::new(seed),
                written: Cell::new(0),
                off,
            };
            run(&world.d1, "INSERT INTO shards (name, made_at_ms) VALUES (?1, 1)", vec![NAME.into()]);
            world
        }

        /// As `src/shard.mjs`: what leaves the mark as it is and changes something is undone.
        fn put(&self, mark: Option<u64>) -> Asked<()> {
            let before = number(&self.shard, MARKED);
            self.shard.execute_batch("BEGIN").unwrap();
            if let Some(mark) = mark {
                let sql = if self.off == Disabled::Mark {
                    UNMARK.replace("mark = ?1", "?1 IS NOT NULL")
                } else {
                    UNMARK.to_owned()
                };
                run(&self.shard, &sql, vec![mark.into()]);
            }
            self.written.set(self.written.get() + 1);
            let sql = "INSERT INTO audit_records VALUES ('o', ?1, 7, 'account:a', 'x', 's', '{}')";
            run(&self.shard, sql, vec![self.written.get().into()]);
            match before.filter(|_| self.off != Disabled::Refusal && number(&self.shard, MARKED) == before) {
                Some(mark) => {
                    self.shard.execute_batch("ROLLBACK").unwrap();
                    Asked::AtRest(mark)
                }
                None => {
                    self.shard.execute_batch("COMMIT").unwrap();
                    Asked::Done(())
                }
            }
        }

        /// Something is written into the shard.
        async fn write(&self) {
            let ask = async |mark| {
                turn().await;
                let asked = self.put(mark);
                turn().await;
                Ok::<_, String>(asked)
            };
            let wake = async || {
                turn().await;
                run(&self.d1, WAKE, vec![NAME.into()]);
                turn().await;
                Ok(())
            };
            waking(ask, wake).await.unwrap();
        }

        async fn lay(&self) {
            let (shard, d1) = (At(self, &self.shard), At(self, &self.d1));
            lay(&shard, &OfShard { name: NAME, d1: &d1, from_ms: 0 }, NOW_MS).await.unwrap();
        }

        fn rests(&self) -> bool {
            number(&self.d1, "SELECT 1 FROM shards WHERE rests_since_ms IS NOT NULL").is_some()
        }

        fn rows(&self) -> u64 {
            number(&self.shard, "SELECT count(*) FROM audit_records").unwrap()
        }

        /// Two that lay it to rest and two that write, killed anywhere. No row is ever where no list looks. Gives how often it rested.
        fn play(&self) -> std::result::Result<usize, String> {
            let mut rested = 0;
            let begin = |which: usize| -> Pin<Box<dyn Future<Output = ()> + '_>> {
                if which < 2 { Box::pin(self.lay()) } else { Box::pin(self.write()) }
            };
            let mut works = [0, 1, 2, 3].map(begin);
            for _ in 0..2_000 {
                let which = self.rng.roll(4) as usize;
                match self.rng.roll(30) {
                    0 => works[which] = begin(which),
                    // All has left.
                    1..=3 => drop(run(&self.shard, "DELETE FROM audit_records", vec![])),
                    // Writers come now and then.
                    _ if which >= 2 && self.rng.roll(4) > 0 => {}
                    _ => {
                        if works[which].as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
                            works[which] = begin(which);
                        }
                    }
                }
                rested += usize::from(self.rests());
                if self.rests() && self.rows() > 0 {
                    return Err(format!("{} rows are in a shard that no list asks", self.rows()));
                }
            }
            Ok(rested)
        }
    }

    #[test]
    fn no_row_is_in_a_shard_at_rest_whatever_breaks_off() {
        let mut rested = 0;
        for seed in 1..=60 {
            rested += World::new(seed, Disabled::Nothing).play().unwrap();
        }
        assert!(rested > 1_000, "it rested for {rested} turns");
    }

    #[test]
    fn control_without_the_count_the_refusal_or_the_marks_number_rows_are_unseen() {
        for off in [Disabled::Count, Disabled::Refusal, Disabled::Mark] {
            assert!((1..=2_000).any(|seed| World::new(seed, off).play().is_err()), "{off:?}");
        }
    }

    /// Each thing that may still have to be done there, or seen.
    #[test]
    fn a_shard_with_anything_left_does_not_rest() {
        let left = [
            "INSERT INTO audit_records VALUES ('o', 1, 7, 'account:a', 'x', 's', '{}')",
            "INSERT INTO history_batches (batch, state, month, began_at_ms, changed_at_ms) VALUES (1, 'writing', '2025-10', 1, 1)",
            "INSERT INTO history_batches (batch, state, month, began_at_ms, changed_at_ms)
                VALUES (1, 'void', '2025-10', 1, 1899999999999)",
            "INSERT INTO breaks (break_id, kind, provider, state, first_seen_at_ms, last_seen_at_ms)
                VALUES ('b', 'capture_failed', 'stripe', 'open', 1, 1)",
            "INSERT INTO refunds VALUES ('r', 'p', 1, 'succeeded', 1, 'usd', '', 'stripe', NULL, 1, 1, NULL)",
            "INSERT INTO jobs (job_id, kind, object, state, attempts, first_at_ms, history, staged_at_ms, updated_at_ms)
                VALUES ('j', 'project', 'o', 'done', 1, 1, '[]', 1, 1)",
        ];
        let over = "INSERT INTO history_batches (batch, state, month, began_at_ms, changed_at_ms)
            VALUES (1, 'written', '2025-10', 1, 1), (2, 'void', '2025-10', 1, 1)";
        for (sql, rests) in left.map(|sql| (sql, false)).into_iter().chain([(over, true)]) {
            let world = World::new(1, Disabled::Nothing);
            world.shard.execute_batch(sql).unwrap();
            let mut work = Box::pin(world.lay());
            while work.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {}
            assert_eq!(world.rests(), rests, "{sql}");
        }
    }

    /// What a release did that knows nothing of rest, or D1 after it was taken back: without this look no list would show it ever again.
    #[test]
    fn a_shard_that_rests_by_d1_alone_is_woken() {
        let check = |world: &World| {
            let mut work = Box::pin(async {
                let (shard, d1) = (At(world, &world.shard), At(world, &world.d1));
                super::check(&shard, NAME, &d1).await.unwrap()
            });
            loop {
                if let Poll::Ready(woken) = work.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                    assert_eq!(world.rests(), !woken);
                    return woken;
                }
            }
        };
        let at_rest = || {
            let world = World::new(1, Disabled::Nothing);
            let mut work = Box::pin(world.lay());
            while work.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {}
            drop(work);
            assert!(world.rests());
            world
        };
        assert!(!check(&at_rest()), "it does rest");
        let world = at_rest();
        world
            .shard
            .execute_batch("INSERT INTO audit_records VALUES ('o', 1, 7, 'account:a', 'x', 's', '{}')")
            .unwrap();
        assert!(check(&world), "it was written without waking");
        let world = at_rest();
        world.shard.execute_batch("DELETE FROM shard_rest").unwrap();
        assert!(check(&world), "whoever writes would not wake it");
    }

    /// Breaks that are over are listed in D1 as they are, and stay where they keep others from being opened anew.
    #[test]
    fn closed_breaks_are_listed_in_d1_and_stay_closed() {
        let world = World::new(1, Disabled::Nothing);
        let all = "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 250)
            INSERT INTO breaks (break_id, kind, provider, state, note, first_seen_at_ms, last_seen_at_ms)
            SELECT 'b' || n, 'capture_failed', 'stripe', 'accepted', 'it is known', 1, 2 FROM n";
        world.shard.execute_batch(all).unwrap();
        let lay = || {
            let mut work = Box::pin(world.lay());
            while work.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {}
        };
        lay();
        assert!(world.rests());
        let shown = |db: &Connection, note: &str| {
            let sql = "SELECT count(*) FROM breaks WHERE state = 'accepted' AND note = ?1";
            db.query_row(sql, (note,), |row| row.get::<_, i64>(0)).unwrap()
        };
        assert_eq!((shown(&world.d1, "it is known"), shown(&world.shard, "it is known")), (250, 250));
        // Whoever finds the same again leaves it as it is: so do the statements of the sweep.
        let again = "INSERT INTO breaks (break_id, kind, provider, state, first_seen_at_ms, last_seen_at_ms)
            VALUES ('b7', 'capture_failed', 'stripe', 'open', 3, 3) ON CONFLICT DO NOTHING";
        assert_eq!(world.shard.execute(again, ()).unwrap(), 0);
        // What became of one after it was woken is listed once it rests again.
        let later = "UPDATE breaks SET note = 'known for long', last_seen_at_ms = 4 WHERE break_id = 'b7'";
        world.shard.execute_batch(later).unwrap();
        run(&world.d1, WAKE, vec![NAME.into()]);
        lay();
        assert!(world.rests());
        assert_eq!((shown(&world.d1, "it is known"), shown(&world.d1, "known for long")), (249, 1));
    }
}
