//! The sums of the plots in two places, over databases of the tests' own: payments, keys and jobs are made, change, go and move from one place to the
//! other, at any age, while runs sum them, are broken off, and overtake each other. Whenever somebody looks, the kept sums with what is counted anew
//! are what a count of all rows gives.

#[cfg(test)]
use std::collections::BTreeMap;

use rusqlite::Connection;

use super::plots::{Look, Plan, look_sql, look_values};
use super::simulation::{Rng, bound};
use crate::kept_sums::{Bound, Found, PAGE_BOUND, window_sql};
use crate::tasks::late::tests::read_model;
use crate::time_window::{Range, TimeWindow};
use runtime::db::Statement;

const START_MS: u64 = 1_793_491_200_000;
const MINUTE_MS: u64 = 60_000;
const DAY_MS: u64 = 86_400_000;

/// By bucket, what, name and currency: how many, and how much.
type Counted = BTreeMap<(usize, String, String, String), (u64, u64)>;

struct World {
    places: [Connection; 2],
    rng: Rng,
    now_ms: u64,
    made: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        Self { places: [read_model(), read_model()], rng: Rng::new(seed), now_ms: START_MS, made: 0 }
    }

    /// The control: nobody notes what changes.
    fn careless(seed: u64) -> Self {
        let world = Self::new(seed);
        for place in &world.places {
            let sql = "SELECT group_concat('DROP TRIGGER ' || name, ';') FROM sqlite_schema WHERE type = 'trigger' AND name LIKE 'plots_%'";
            let drops: String = place.query_row(sql, (), |row| row.get(0)).unwrap();
            assert!(drops.contains("plots_payment_gone"));
            place.execute_batch(&drops).unwrap();
        }
        world
    }

    fn some_place(&self) -> &Connection {
        &self.places[self.rng.roll(2) as usize]
    }

    /// Most often within the last minutes, but for some at any time up to nine days ago.
    fn some_time_ms(&self) -> u64 {
        let age_ms = match self.rng.roll(6) {
            0 => self.rng.roll(9 * DAY_MS),
            1 => self.rng.roll(DAY_MS),
            2 => self.rng.roll(90 * MINUTE_MS),
            _ => self.rng.roll(4 * MINUTE_MS),
        };
        self.now_ms - age_ms
    }

    fn took_ms(&self) -> u64 {
        let most = 10_u64.pow(self.rng.roll(6) as u32);
        self.rng.roll(most)
    }

    fn run(place: &Connection, sql: &str, values: impl rusqlite::Params) -> usize {
        place.prepare_cached(sql).unwrap().execute(values).unwrap()
    }

    fn some_status(&self) -> &'static str {
        ["succeeded", "declined", "processing", "requires_capture", "disputed"][self.rng.roll(5) as usize]
    }

    fn some_jobs(&self, made_at_ms: u64) -> Option<String> {
        let staged_at_ms = made_at_ms + self.took_ms();
        (self.rng.roll(3) > 0).then(|| {
            let job = self.rng.roll(4);
            format!(
                r#"{{"j{job}":["send_receipt","sent",{staged_at_ms},{}]}}"#,
                staged_at_ms + self.took_ms()
            )
        })
    }

    fn make_payment(&mut self) {
        self.made += 1;
        let (id, at_ms) = (self.made, self.some_time_ms());
        let key = (self.rng.roll(5) > 0).then_some("h");
        let finished_at_ms = key.map(|_| (at_ms + self.took_ms()).cast_signed());
        let currency = ["usd", "eur"][self.rng.roll(2) as usize];
        let sql =
            "INSERT INTO payments (payment_id, object, version, owner, status, amount_minor, captured_minor, refunded_minor, currency,
                provider, attempt, shown, created_at_ms, updated_at_ms, key_hash, key_finished_at_ms, done_jobs)
             VALUES (?1, ?1, 1, 'account:1', ?2, 900, ?3, 0, ?4, 'stripe', 1, '{}', ?5, ?5, ?6, ?7, ?8)";
        let values = (
            id.to_string(),
            self.some_status(),
            self.rng.roll(900).cast_signed(),
            currency,
            at_ms.cast_signed(),
            key,
            finished_at_ms,
            self.some_jobs(at_ms),
        );
        Self::run(self.some_place(), sql, values);
    }

    /// The payment of this number, or another that is still there.
    fn change_payment(&self) {
        let place = self.some_place();
        let id = (1 + self.rng.roll(self.made)).to_string();
        let at_ms = self.some_time_ms();
        match self.rng.roll(6) {
            0 => Self::run(
                place,
                "UPDATE payments SET status = ?2 WHERE payment_id = ?1",
                (id, self.some_status()),
            ),
            1 => Self::run(
                place,
                "UPDATE payments SET captured_minor = captured_minor + 1 WHERE payment_id = ?1",
                [id],
            ),
            2 => {
                let sql = "UPDATE payments SET done_jobs = json_patch(coalesce(done_jobs, '{}'), ?2) WHERE payment_id = ?1";
                Self::run(place, sql, (id, self.some_jobs(at_ms).unwrap_or_else(|| "{}".to_owned())))
            }
            3 => Self::run(
                place,
                "UPDATE payments SET key_hash = iif(key_hash IS NULL, 'h', NULL), key_finished_at_ms = created_at_ms + ?2 WHERE payment_id = ?1",
                (id, self.took_ms().cast_signed()),
            ),
            4 => Self::run(place, "DELETE FROM payments WHERE payment_id = ?1", [id]),
            // It moves to the other place.
            _ => {
                let columns = "payment_id, object, version, owner, status, amount_minor, captured_minor, refunded_minor, currency, provider, attempt,
                    shown, created_at_ms, updated_at_ms, key_hash, key_finished_at_ms, done_jobs";
                let [from, to] =
                    if self.rng.roll(2) == 0 { [0, 1] } else { [1, 0] }.map(|at| &self.places[at]);
                let mut read = from
                    .prepare_cached(&format!("SELECT {columns} FROM payments WHERE payment_id = ?1"))
                    .unwrap();
                let mut rows = read.query([&id]).unwrap();
                if let Some(row) = rows.next().unwrap() {
                    let values: Vec<rusqlite::types::Value> =
                        (0..17).map(|column| row.get(column).unwrap()).collect();
                    let places: Vec<String> = (1..=17).map(|place| format!("?{place}")).collect();
                    let sql = format!("INSERT INTO payments ({columns}) VALUES ({})", places.join(", "));
                    Self::run(to, &sql, rusqlite::params_from_iter(values));
                }
                drop(rows);
                Self::run(from, "DELETE FROM payments WHERE payment_id = ?1", [&id])
            }
        };
    }

    fn change_key(&self) {
        let (place, key, at_ms) = (self.some_place(), self.rng.roll(40).to_string(), self.some_time_ms());
        let finished_at_ms = (self.rng.roll(3) > 0).then_some((at_ms + self.took_ms()).cast_signed());
        match self.rng.roll(4) {
            0 => Self::run(place, "DELETE FROM keys WHERE object = ?1", [key]),
            1 => Self::run(
                place,
                "UPDATE keys SET finished_at_ms = created_at_ms + ?2 WHERE object = ?1",
                (key, self.took_ms().cast_signed()),
            ),
            _ => {
                let sql = "INSERT INTO keys (object, key_id, version, key_hash, owner, status, recovery_point, attempts, failures, in_doubt, flagged,
                        created_at_ms, finished_at_ms, updated_at_ms) VALUES (?1, 2, 1, 'h', 'account:1', 'finished', 'finished', 1, 0, 0, 0, ?2, ?3, ?2)
                     ON CONFLICT (object, key_id) DO UPDATE SET finished_at_ms = excluded.finished_at_ms, created_at_ms = excluded.created_at_ms";
                Self::run(place, sql, (key, at_ms.cast_signed(), finished_at_ms))
            }
        };
    }

    fn change_job(&self) {
        let (place, job, at_ms) = (self.some_place(), self.rng.roll(40).to_string(), self.some_time_ms());
        let state = ["tried", "done", "done", "dead"][self.rng.roll(4) as usize];
        match self.rng.roll(4) {
            0 => Self::run(place, "DELETE FROM jobs WHERE job_id = ?1", [job]),
            1 => Self::run(place, "UPDATE jobs SET state = ?2 WHERE job_id = ?1", (job, state)),
            _ => {
                let sql = "INSERT INTO jobs (job_id, kind, object, state, attempts, first_at_ms, history, staged_at_ms, updated_at_ms)
                     VALUES (?1, 'send_receipt', 'o', ?2, 1, ?3, '[]', ?3, ?4)
                     ON CONFLICT (job_id) DO UPDATE SET state = excluded.state, updated_at_ms = excluded.updated_at_ms";
                Self::run(
                    place,
                    sql,
                    (job, state, at_ms.cast_signed(), (at_ms + self.took_ms()).cast_signed()),
                )
            }
        };
    }

    fn look(&self, place: &Connection, bound_to: Bound) -> Option<Plan> {
        let mut statement = place.prepare_cached(&look_sql(bound_to)).unwrap();
        let look = statement.query_row(bound(&look_values(self.now_ms)), |row| {
            let number = |at: usize| row.get::<_, i64>(at).map(i64::cast_unsigned);
            let maybe = |at: usize| row.get::<_, Option<i64>>(at).map(|found| found.map(i64::cast_unsigned));
            Ok(Look {
                from_ms: number(0)?,
                until_ms: number(1)?,
                is_stale: row.get(2)?,
                has_newer: row.get(3)?,
                newer_ms: maybe(4)?,
                has_older: row.get(5)?,
                older_ms: maybe(6)?,
                changed: row.get(7)?,
                changes: number(8)?,
            })
        });
        Plan::of(look.unwrap(), self.now_ms).unwrap()
    }

    fn done(place: &Connection, plan: &Plan) {
        place.execute_batch("BEGIN").unwrap();
        for Statement { sql, values } in plan.statements().unwrap() {
            place.prepare_cached(&sql).unwrap().execute(bound(&values)).unwrap();
        }
        place.execute_batch("COMMIT").unwrap();
    }

    /// A run of a place: after it has looked others may change something, sum it, or it is broken off.
    fn sum(&mut self) {
        let at = self.rng.roll(2) as usize;
        let bound_to = Bound { minutes: 1 + self.rng.roll(4) as u32, payments: 1 + self.rng.roll(12) as u32 };
        let plan = self.look(&self.places[at], bound_to);
        if self.rng.roll(4) == 0 {
            for _ in 0..self.rng.roll(4) {
                self.something_happens();
            }
            if let Some(other) = self.look(&self.places[at], bound_to) {
                Self::done(&self.places[at], &other);
            }
        }
        if let Some(plan) = plan.filter(|_| self.rng.roll(5) > 0) {
            Self::done(&self.places[at], &plan);
        }
    }

    fn something_happens(&mut self) {
        match self.rng.roll(20) {
            0..8 => self.make_payment(),
            8..12 if self.made > 0 => self.change_payment(),
            12..14 => self.change_key(),
            14..16 => self.change_job(),
            16..19 => self.now_ms += self.rng.roll(12 * MINUTE_MS),
            _ if self.rng.roll(8) == 0 => self.now_ms += self.rng.roll(4 * DAY_MS),
            _ => {}
        }
    }

    /// What is wrong in a place for those who count so much anew.
    fn wrong(&self, place: &Connection, bound_to: Bound) -> Option<String> {
        Range::ALL.into_iter().find_map(|range| {
            let window = range.window(self.now_ms);
            let (found, is_whole) = found(place, &window, bound_to);
            let all = all(place, &window);
            let is_more = |(key, sum): (&(usize, String, String, String), &(u64, u64))| {
                all.get(key).is_none_or(|of_all| of_all < sum)
            };
            // What is not summed yet is missing, and that is told of.
            let is_wrong = if is_whole { found != all } else { found.iter().any(is_more) };
            is_wrong.then(|| format!("{range:?}: {found:?} in place of {all:?}"))
        })
    }

    fn any_wrong(&self) -> Option<String> {
        self.places.iter().find_map(|place| {
            let few = Bound { minutes: 3, payments: 20 };
            self.wrong(place, PAGE_BOUND).or_else(|| self.wrong(place, few))
        })
    }
}

fn found(place: &Connection, window: &TimeWindow, bound_to: Bound) -> (Counted, bool) {
    let text: String =
        place.prepare_cached(&window_sql(window, bound_to)).unwrap().query_row((), |row| row.get(0)).unwrap();
    let found: Found = serde_json::from_str(&text).unwrap();
    let (mut counted, is_whole) = (Counted::new(), found.is_whole());
    for (bucket, (what, name, currency, number, minor)) in found.sums() {
        let sum = counted.entry((bucket, what, name, currency)).or_default();
        *sum = (sum.0 + number, sum.1 + minor);
    }
    (counted, is_whole)
}

/// The same from all rows there are.
fn all(place: &Connection, window: &TimeWindow) -> Counted {
    let mut counted = Counted::new();
    let mut add = |at_ms: u64, what: &str, name: String, currency: &str, minor: u64| {
        if let Some(since_ms) = at_ms.checked_sub(window.start_ms) {
            let bucket = (since_ms / window.bucket_ms) as usize;
            let sum = counted.entry((bucket, what.to_owned(), name, currency.to_owned())).or_default();
            *sum = (sum.0 + 1, sum.1 + minor);
        }
    };
    let about = |ms: u64| {
        let digits = ms.to_string();
        format!("{}{}", &digits[..digits.len().min(2)], "0".repeat(digits.len().saturating_sub(2)))
    };
    let mut payments = place
        .prepare("SELECT created_at_ms, status, currency, captured_minor, key_hash, key_finished_at_ms, done_jobs FROM payments")
        .unwrap();
    let mut rows = payments.query(()).unwrap();
    while let Some(row) = rows.next().unwrap() {
        let at_ms: u64 = row.get::<_, i64>(0).unwrap().cast_unsigned();
        let currency: String = row.get(2).unwrap();
        add(at_ms, "ended", row.get(1).unwrap(), &currency, row.get::<_, i64>(3).unwrap().cast_unsigned());
        let (key, finished_at_ms): (Option<String>, Option<i64>) = (row.get(4).unwrap(), row.get(5).unwrap());
        if let Some(finished_at_ms) = key.and(finished_at_ms) {
            add(at_ms, "key", about(finished_at_ms.cast_unsigned() - at_ms), "", 0);
        }
        let jobs: Option<String> = row.get(6).unwrap();
        let jobs: BTreeMap<String, (String, String, u64, u64)> =
            serde_json::from_str(jobs.as_deref().unwrap_or("{}")).unwrap();
        for (_, _, staged_at_ms, done_at_ms) in jobs.into_values() {
            add(at_ms, "job", about(done_at_ms - staged_at_ms), "", 0);
        }
    }
    for (what, sql) in [
        (
            "key",
            "SELECT created_at_ms, finished_at_ms - created_at_ms FROM keys WHERE finished_at_ms IS NOT NULL",
        ),
        ("job", "SELECT updated_at_ms, updated_at_ms - staged_at_ms FROM jobs WHERE state = 'done'"),
    ] {
        let mut statement = place.prepare(sql).unwrap();
        let mut rows = statement.query(()).unwrap();
        while let Some(row) = rows.next().unwrap() {
            let (at_ms, ms): (i64, i64) = (row.get(0).unwrap(), row.get(1).unwrap());
            add(at_ms.cast_unsigned(), what, about(ms.max(0).cast_unsigned()), "", 0);
        }
    }
    counted
}

fn number(place: &Connection, sql: &str) -> u64 {
    place.query_row(sql, (), |row| row.get::<_, i64>(0)).unwrap().cast_unsigned()
}

/// Plays so many turns. Gives what was wrong first, and how often somebody looked while there were sums of slices around minutes.
fn played(world: &mut World, turns: usize) -> (Option<String>, usize) {
    let mut looked = 0;
    for turn in 0..turns {
        if world.rng.roll(5) == 0 {
            world.sum();
        } else {
            world.something_happens();
        }
        if turn % 8 == 0 {
            if let Some(wrong) = world.any_wrong() {
                return (Some(format!("turn {turn}: {wrong}")), looked);
            }
            let are_kept =
                number(&world.places[0], "SELECT count(*) FROM plot_sums WHERE slice_ms > 60000") > 0;
            looked += usize::from(are_kept);
        }
    }
    (None, looked)
}

#[test]
fn kept_sums_are_what_a_count_of_all_rows_gives_whatever_changes() {
    for seed in 1..=6 {
        let mut world = World::new(seed);
        let (wrong, looked) = played(&mut world, 600);
        assert_eq!(wrong, None, "seed {seed}");
        assert!(looked > 20, "seed {seed}: {looked}");
    }
}

#[test]
fn control_where_changes_are_not_noted_sums_are_wrong() {
    for seed in 1..=4 {
        let (wrong, _) = played(&mut World::careless(seed), 800);
        assert!(wrong.is_some(), "seed {seed}");
    }
}

#[test]
fn runs_come_to_an_end_and_a_page_counts_only_what_is_new() {
    let mut world = World::new(3);
    for _ in 0..400 {
        world.make_payment();
    }
    world.now_ms += 10 * MINUTE_MS;
    let few = Bound { minutes: 2, payments: 30 };
    let window = Range::Week.window(world.now_ms);
    let place = &world.places[0];
    assert!(!found(place, &window, few).1, "most is not summed");
    let mut runs = 0;
    while let Some(plan) = world.look(place, few) {
        World::done(place, &plan);
        runs += 1;
        assert!(runs < 100);
    }
    assert!(runs > 3);
    let nothing = Bound { minutes: 0, payments: 0 };
    assert_eq!(found(place, &window, nothing), (all(place, &window), true));
    // A payment that is captured later takes one minute out, and once.
    let changed = |place: &Connection| number(place, "SELECT count(*) FROM plot_changes");
    let since_ms = (world.now_ms - 6 * DAY_MS).cast_signed();
    for _ in 0..2 {
        let sql = "UPDATE payments SET captured_minor = captured_minor + 1 WHERE payment_id IN
            (SELECT payment_id FROM payments WHERE created_at_ms > ?1 ORDER BY created_at_ms LIMIT 1)";
        assert_eq!(World::run(place, sql, [since_ms]), 1);
        assert_eq!(changed(place), 1);
    }
    assert!(!found(place, &window, nothing).1);
    assert_eq!(found(place, &window, Bound { minutes: 1, payments: 1 }), (all(place, &window), true));
    World::done(place, &world.look(place, few).unwrap());
    assert_eq!((changed(place), world.look(place, few).is_none()), (0, true));
    // What leaves after months, and what is erased, is in no window any more: it costs nothing.
    world.now_ms += 20 * DAY_MS;
    let place = &world.places[0];
    World::done(place, &world.look(place, few).unwrap());
    assert!(world.look(place, few).is_none(), "a place in which nothing happens is written nothing");
    World::run(place, "DELETE FROM payments", ());
    assert_eq!((changed(place), number(place, "SELECT count(*) FROM plot_sums")), (0, 0));
}

/// What is written of a payment when it is made costs no row more than without sums.
#[test]
fn a_payment_of_now_changes_nothing_that_is_summed() {
    let mut world = World::new(1);
    for _ in 0..50 {
        world.make_payment();
    }
    world.now_ms += 10 * MINUTE_MS;
    let few = Bound { minutes: 100, payments: 1_000 };
    let place = &world.places[0];
    World::done(place, &world.look(place, few).unwrap());
    let before = number(place, "SELECT total_changes()");
    let sql = "INSERT INTO payments (payment_id, object, version, owner, status, amount_minor, captured_minor, refunded_minor, currency, provider,
            attempt, shown, created_at_ms, updated_at_ms) VALUES ('new', 'new', 1, 'a', 'processing', 1, 0, 0, 'usd', 'stripe', 1, '{}', ?1, ?1)";
    World::run(place, sql, [world.now_ms.cast_signed()]);
    World::run(
        place,
        "UPDATE payments SET status = 'succeeded', captured_minor = 1 WHERE payment_id = 'new'",
        (),
    );
    assert_eq!(number(place, "SELECT total_changes()") - before, 2);
}
