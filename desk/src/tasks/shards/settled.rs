//! The settlement over several places, on databases of the tests' own: runs that are killed at every step and two at once, a mover beside them, a
//! shard that is down for a while, and movements that come late. In the end each movement stands in one file, once, and the manifests follow the days:
//! where one run goes on with all places, and where each place has runs of its own.

#[cfg(test)]
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::{Context, Waker};

use data_encoding::HEXLOWER;
use rusqlite::Connection;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

use super::mover::{self, Cursor};
use super::settled_payments::{Payment, block, complaints, database, json_rows, transaction, unnamed, write};
use crate::tasks::settlement_job;
use crate::tasks::settlement_run::Stores;
use crate::tasks::simulation::{Rng, turn};
use messages::placement::{self, LEAD_MS, Layout, Period, STRAGGLE_MS, ShardName};
use runtime::db::{Statement, Value};

const HOUR_MS: u64 = 3_600_000;
const DAY_MS: u64 = 24 * HOUR_MS;
const OPENS_MS: u64 = 20_800 * DAY_MS;
/// From then on payments that are made are in shards. Those of D1 are moved later: from the moment on at which a day is due.
const SHARDS_FROM_MS: u64 = OPENS_MS + 2 * DAY_MS + 7 * HOUR_MS;
const MOVE_MS: u64 = OPENS_MS + 3 * DAY_MS + 2 * HOUR_MS - LEAD_MS - STRAGGLE_MS;
/// For so long time goes by seconds then.
const MOVES_FOR_MS: u64 = 600_000;
const PART_LINES: u64 = 4;
const DOWN: &str = "it is down";

/// What is left out, to see that the tests would notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protection {
    Real,
    /// The mover leaves the lines of settlement files behind.
    LinesStayBehind,
    /// D1 goes on making lines of payments that are to be moved.
    D1GoesOn,
    /// Shards close days while their payments are moved.
    ShardsDoNotWait,
    /// The manifest is written without asking whether all places are there.
    ManifestDoesNotWait,
}

struct World {
    d1: Connection,
    shards: RefCell<BTreeMap<String, Connection>>,
    clock: Arc<AtomicI64>,
    now_ms: Cell<u64>,
    bucket: RefCell<BTreeMap<String, String>>,
    /// Parts that the release before had written, and not noted.
    by_the_release_before: RefCell<BTreeSet<String>>,
    /// Objects by which a day is complete, as they were written.
    completed: RefCell<Vec<String>>,
    /// How runs ended that were not killed.
    errors: RefCell<Vec<String>>,
    payments: RefCell<Vec<Payment>>,
    /// What will be told when: of which payment.
    on_the_way: RefCell<BTreeSet<(u64, usize, usize)>>,
    layout: RefCell<Option<Layout>>,
    is_moved: Cell<bool>,
    cursor: RefCell<Option<Cursor>>,
    down: RefCell<Option<String>>,
    protection: Protection,
    runs: Runs,
    rng: Rng,
}

/// Whose runs there are.
#[derive(Clone, Copy, Debug)]
enum Runs {
    OfAll,
    OfEach,
}

impl World {
    fn new(seed: u64, protection: Protection, runs: Runs) -> Self {
        let clock = Arc::new(AtomicI64::new(0));
        let world = Self {
            d1: database(&clock),
            shards: RefCell::default(),
            clock,
            now_ms: Cell::new(OPENS_MS),
            bucket: RefCell::default(),
            by_the_release_before: RefCell::default(),
            completed: RefCell::default(),
            errors: RefCell::default(),
            payments: RefCell::default(),
            on_the_way: RefCell::default(),
            layout: RefCell::default(),
            is_moved: Cell::new(false),
            cursor: RefCell::default(),
            down: RefCell::default(),
            protection,
            runs,
            rng: Rng::new(seed),
        };
        world.passes(0);
        world
    }

    /// Time goes on: what an operator does at its time, and what is told.
    fn passes(&self, ms: u64) {
        self.now_ms.set(self.now_ms.get() + ms);
        let now_ms = self.now_ms.get();
        self.clock.store(i64::try_from(now_ms / 1000).unwrap(), Ordering::Relaxed);
        if now_ms >= SHARDS_FROM_MS - HOUR_MS && self.layout.borrow().is_none() {
            let layout = Layout {
                layout_id: 1,
                from_ms: SHARDS_FROM_MS,
                slots: 3,
                period: Period::Month,
                spread: BTreeMap::from([("account:0".to_owned(), 2)]),
                moved_since_ms: None,
                moved_at_ms: None,
            };
            let sql = "INSERT INTO shard_layouts (layout_id, from_ms, slots, spread, made_at_ms) VALUES (1, ?1, 3, '{\"account:0\":2}', ?1)";
            self.d1.execute(sql, [SHARDS_FROM_MS.cast_signed()]).unwrap();
            self.layout.replace(Some(layout));
        }
        let mut layout = self.layout.borrow_mut();
        if let Some(layout) = layout.as_mut().filter(|it| now_ms >= MOVE_MS && it.moved_at_ms.is_none()) {
            (layout.moved_since_ms, layout.moved_at_ms) = (Some(0), Some(now_ms + LEAD_MS));
            let sql = "UPDATE shard_layouts SET moved_since_ms = 0, moved_at_ms = ?1";
            self.d1.execute(sql, [(now_ms + LEAD_MS).cast_signed()]).unwrap();
        }
        drop(layout);
        let due = |next: &(u64, usize, usize)| next.0 <= now_ms;
        loop {
            let next = self.on_the_way.borrow().first().copied().filter(due);
            let Some(next) = next else { break };
            self.on_the_way.borrow_mut().remove(&next);
            self.tell(next.1, next.2);
        }
    }

    fn layouts(&self) -> Vec<Layout> {
        self.layout.borrow().iter().cloned().collect()
    }

    /// A payment is made and captured, or one changes; the read model is told of it now, or some time later.
    fn something_happens(&self) {
        let now_ms = self.now_ms.get();
        let mut payments = self.payments.borrow_mut();
        let number = payments.len();
        let number = if number < 4 || self.rng.roll(2) == 0 {
            let (object, owner) = (format!("{number:064x}"), format!("account:{}", number % 4));
            payments.push(Payment { object, owner, made_at_ms: now_ms, versions: Vec::new(), told: 0 });
            number
        } else {
            usize::try_from(self.rng.roll(number as u64)).unwrap()
        };
        let payment = &mut payments[number];
        if payment.versions.len() < 5 {
            payment.versions.push(now_ms);
            let is_held_up = (MOVE_MS - DAY_MS..MOVE_MS).contains(&now_ms) && self.rng.roll(2) == 0;
            let until_moved_ms = (MOVE_MS + LEAD_MS).saturating_sub(now_ms) + 1_000 * self.rng.roll(240);
            let late_ms =
                [2_000, 2_000, 2_000, 70 * 60_000, 5 * HOUR_MS, 30 * HOUR_MS][self.rng.roll(6) as usize];
            let late_ms = if is_held_up { until_moved_ms } else { late_ms };
            self.on_the_way.borrow_mut().insert((now_ms + late_ms, number, payment.versions.len()));
        }
    }

    /// An object tells a version, with all before it that were not told, as the consumer writes it: to where it counts, and while a move
    /// begins to D1, too.
    fn tell(&self, number: usize, version: usize) {
        let mut payments = self.payments.borrow_mut();
        let payment = &mut payments[number];
        let now_ms = self.now_ms.get();
        let home =
            placement::home(&self.layouts(), &payment.owner, payment.made_at_ms, &payment.object, now_ms);
        let is_straggler = self.layout.borrow().as_ref().is_some_and(|layout| {
            home.was_in_d1 && layout.moved_at_ms.is_some_and(|at_ms| now_ms < at_ms + STRAGGLE_MS)
        });
        let mut shards = self.shards.borrow_mut();
        let place = match home.shard.filter(|_| !is_straggler || self.rng.roll(2) == 0) {
            Some(shard) => &*shards.entry(self.written_down(&shard)).or_insert_with(|| database(&self.clock)),
            None => &self.d1,
        };
        write(place, number, payment, version);
        payment.told = payment.told.max(version);
    }

    fn written_down(&self, shard: &ShardName) -> String {
        let name = shard.to_string();
        let sql = "INSERT INTO shards (name, made_at_ms) VALUES (?1, 1) ON CONFLICT DO NOTHING";
        self.d1.execute(sql, [&name]).unwrap();
        name
    }

    fn with<T>(&self, place: &str, work: impl FnOnce(&Connection) -> T) -> worker::Result<T> {
        if place.is_empty() {
            return Ok(work(&self.d1));
        }
        if self.down.borrow().as_deref() == Some(place) {
            return Err(worker::Error::RustError(format!("{place}: {DOWN}")));
        }
        Ok(work(self.shards.borrow_mut().entry(place.to_owned()).or_insert_with(|| database(&self.clock))))
    }

    /// The mover, once through what D1 has, as a sweep goes on with it.
    async fn moves(&self) {
        let layouts = self.layouts();
        let now_ms = self.now_ms.get();
        let Some(layout) = layouts
            .first()
            .filter(|layout| layout.moved_at_ms.is_some_and(|at_ms| at_ms + STRAGGLE_MS <= now_ms))
        else {
            return turn().await;
        };
        loop {
            let cursor = self.cursor.borrow().clone();
            let step = mover::step(self, &layouts, layout, cursor, now_ms).await.unwrap();
            self.cursor.replace(step.next.clone());
            if step.next.is_none() {
                break;
            }
        }
        if mover::is_done(self, layout).await.unwrap() {
            self.d1.execute("UPDATE shard_layouts SET done_at_ms = 1 WHERE done_at_ms IS NULL", ()).unwrap();
            self.is_moved.set(true);
        }
    }

    /// A run that is begun now: for all places, or for one of them.
    async fn settles(&self) {
        let names: Vec<String> = self.shards.borrow().keys().cloned().collect();
        let one = usize::try_from(self.rng.roll(names.len() as u64 + 1)).unwrap();
        self.settles_in(names.get(one).map_or("", String::as_str)).await;
    }

    async fn settles_in(&self, place: &str) {
        let done = match self.runs {
            Runs::OfAll => settlement_job::run(self, PART_LINES).await,
            Runs::OfEach => settlement_job::run_in(self, PART_LINES, place).await,
        };
        if let Err(error) = done
            && !error.to_string().ends_with(DOWN)
        {
            self.errors.borrow_mut().push(error.to_string());
        }
    }

    /// Days of the shop, with two runs and a mover that are killed at any step.
    fn play(&self) {
        let mut all: [Option<Pin<Box<dyn Future<Output = ()> + '_>>>; 3] = [None, None, None];
        while self.now_ms.get() < OPENS_MS + 6 * DAY_MS {
            let one = usize::try_from(self.rng.roll(3)).unwrap();
            match self.rng.roll(60) {
                0 => all[one] = None,
                1 | 2 if self.now_ms.get() < OPENS_MS + 5 * DAY_MS => self.something_happens(),
                3 => {
                    let now_ms = self.now_ms.get();
                    let ms = [60_000, 40 * 60_000, 3 * HOUR_MS][self.rng.roll(3) as usize];
                    if (MOVE_MS..MOVE_MS + MOVES_FOR_MS).contains(&now_ms) {
                        self.passes(1_000);
                    } else {
                        // Runs do not last so long.
                        all = [None, None, None];
                        self.passes(if now_ms < MOVE_MS { ms.min(MOVE_MS - now_ms) } else { ms });
                    }
                }
                4 if self.rng.roll(10) == 0 => {
                    let shards = self.shards.borrow();
                    let one = self.rng.roll(shards.len() as u64 * 2 + 1) as usize;
                    self.down.replace(shards.keys().nth(one).cloned());
                }
                5..10 => self.passes(1_000),
                _ => {
                    let work = all[one].get_or_insert_with(|| match one {
                        2 => Box::pin(self.moves()),
                        _ => Box::pin(self.settles()),
                    });
                    if work.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
                        all[one] = None;
                    }
                }
            }
        }
        drop(all);
        self.down.replace(None);
        for _ in 0..60 {
            self.passes(2 * HOUR_MS);
            block(self.moves());
            let names: Vec<String> = self.shards.borrow().keys().cloned().collect();
            for place in std::iter::once("").chain(names.iter().map(String::as_str)) {
                block(self.settles_in(place));
                if matches!(self.runs, Runs::OfAll) {
                    break;
                }
            }
        }
        assert!(self.is_moved.get());
    }

    /// The lines that must be, and when each moved.
    fn movements(&self) -> BTreeMap<String, u64> {
        let mut lines = BTreeMap::new();
        for (number, payment) in self.payments.borrow().iter().enumerate() {
            let ids = [
                format!("pay_{number:03}:capture"),
                format!("re_{number:03}:refund"),
                format!("re_{number:03}:refund_failed"),
                format!("pay_{number:03}:dispute_withdrawn:5"),
                format!("pay_{number:03}:dispute_reinstated:6"),
            ];
            lines.extend(ids.into_iter().zip(payment.versions.iter().copied()));
        }
        lines
    }

    /// What is wrong with the files, and with the runs.
    fn wrong(&self) -> Vec<String> {
        let mut wrong = self.errors.borrow().clone();
        wrong.extend(complaints(
            &self.bucket.borrow(),
            &self.completed.borrow(),
            &self.by_the_release_before.borrow(),
            self.movements(),
        ));
        wrong
    }
}

impl Stores for World {
    fn now_ms(&self) -> u64 {
        self.now_ms.get()
    }

    async fn rows<T: DeserializeOwned>(
        &self,
        place: &str,
        mut statement: Statement,
    ) -> worker::Result<Vec<T>> {
        turn().await;
        let off = |sql: &str, from: &str, to: &str| {
            let changed = sql.replace(from, to);
            assert!(changed != sql || !sql.contains(from));
            changed
        };
        match self.protection {
            Protection::ShardsDoNotWait => {
                let over = "moved_at_ms IS NULL OR done_at_ms IS NOT NULL AS is_over";
                statement.sql = off(&statement.sql, over, "1 AS is_over");
            }
            Protection::ManifestDoesNotWait => {
                statement.sql =
                    off(&statement.sql, "AND written_at_ms IS NULL) AS missing", "AND 0) AS missing");
                statement.sql =
                    off(&statement.sql, "SELECT parts FROM", "SELECT coalesce(parts, '[]') AS parts FROM");
            }
            _ => {}
        }
        let rows = self.with(place, |connection| json_rows(connection, &statement))?;
        Ok(rows.into_iter().map(|row| serde_json::from_value(row).unwrap()).collect())
    }

    async fn batch(&self, place: &str, mut statements: Vec<Statement>) -> worker::Result<Vec<usize>> {
        turn().await;
        if self.protection == Protection::D1GoesOn {
            for one in &mut statements {
                one.sql = one.sql.replace("AND shard_layouts.slots > 0", "AND 0");
            }
        }
        let changed = self.with(place, |connection| transaction(connection, &statements))?;
        // It is done, and who asked may never learn it.
        turn().await;
        Ok(changed)
    }

    async fn put_new(&self, name: &str, text: String) -> worker::Result<Option<String>> {
        turn().await;
        let sha256 = HEXLOWER.encode(&Sha256::digest(text.as_bytes()));
        let is_new = !self.bucket.borrow().contains_key(name);
        if is_new && name.matches('/').count() == 1 {
            self.completed.borrow_mut().push(name.to_owned());
        }
        let place = name.split('/').nth(2).filter(|place| !place.ends_with(".csv"));
        if let Some(place) = place.filter(|_| is_new && self.rng.roll(4) == 0) {
            self.bucket.borrow_mut().insert(name.to_owned(), unnamed(&text, place));
            self.by_the_release_before.borrow_mut().insert(name.to_owned());
        }
        let there = self.bucket.borrow_mut().entry(name.to_owned()).or_insert_with(|| text.clone()).clone();
        turn().await;
        Ok((there == text).then_some(sha256))
    }

    async fn names(&self) -> worker::Result<Vec<String>> {
        turn().await;
        let bucket = self.bucket.borrow();
        Ok(bucket.keys().filter(|name| name.matches('/').count() == 1).cloned().collect())
    }
}

impl mover::Stores for World {
    async fn texts(
        &self,
        place: Option<&ShardName>,
        sql: &str,
        values: Vec<Value>,
    ) -> Result<Vec<String>, String> {
        turn().await;
        assert_eq!(place, None, "only D1 is read");
        let rows = json_rows(&self.d1, &Statement::new(sql, values));
        Ok(rows.iter().map(|row| row["row"].as_str().unwrap().to_owned()).collect())
    }

    async fn batch(&self, place: Option<&ShardName>, mut statements: Vec<Statement>) -> Result<(), String> {
        turn().await;
        if self.protection == Protection::LinesStayBehind {
            statements.retain(|one| !one.sql.starts_with("INSERT INTO settlement_lines"));
        }
        let name = place.map(ShardName::to_string).unwrap_or_default();
        self.with(&name, |connection| transaction(connection, &statements))
            .map_err(|error| error.to_string())?;
        turn().await;
        Ok(())
    }

    async fn write_down(&self, shard: &ShardName) -> Result<(), String> {
        turn().await;
        self.written_down(shard);
        Ok(())
    }
}

fn played(seed: u64, protection: Protection, runs: Runs) -> World {
    let world = World::new(seed, protection, runs);
    world.play();
    world
}

fn all_stands_once(runs: Runs) {
    for seed in 1..=12 {
        let world = played(seed, Protection::Real, runs);
        assert_eq!(world.wrong(), Vec::<String>::new(), "seed {seed}");
        let completed = world.completed.borrow();
        assert!(completed.iter().any(|name| name.ends_with(".json")), "{completed:?}");
        let in_shards = world.bucket.borrow().keys().filter(|name| name.contains("/g1-")).count();
        assert!(in_shards > 3 && world.movements().len() > 60, "{in_shards} of {}", world.movements().len());
    }
}

#[test]
fn each_movement_stands_in_one_file_of_all_places_wherever_runs_are_broken_off() {
    all_stands_once(Runs::OfAll);
}

#[test]
fn each_movement_stands_in_one_file_where_each_place_has_runs_of_its_own() {
    all_stands_once(Runs::OfEach);
}

fn is_found(protection: Protection) -> bool {
    [Runs::OfAll, Runs::OfEach]
        .into_iter()
        .all(|runs| (1..=60).any(|seed| !played(seed, protection, runs).wrong().is_empty()))
}

#[test]
fn control_without_its_lines_a_moved_payment_is_settled_twice() {
    assert!(is_found(Protection::LinesStayBehind));
}

#[test]
fn control_if_d1_goes_on_with_what_is_to_be_moved_it_is_settled_twice() {
    assert!(is_found(Protection::D1GoesOn));
}

#[test]
fn control_if_shards_do_not_wait_for_the_mover_a_movement_is_lost() {
    assert!(is_found(Protection::ShardsDoNotWait));
}

#[test]
fn control_a_manifest_that_does_not_wait_leaves_something_out() {
    assert!(is_found(Protection::ManifestDoesNotWait));
}
