//! The places of the simulation of places: databases of the tests' own, of which most shards are empty.

#[cfg(test)]
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use rusqlite::Connection;
use serde::de::DeserializeOwned;

use super::places::Objects;
use super::simulated_shop::{DAY_MS, Kind, OPENS_MS, PAYMENTS, Payment};
use crate::tasks::place_stores::{Answers, Asks, Places};
use crate::tasks::shards::mover::{self, Cursor};
use crate::tasks::shards::settled_payments::{database, json_rows, transaction};
use crate::tasks::simulation::{Rng, turn};
use messages::job::JobPayment;
use messages::placement::{self, Layout, Period, ShardName};
use once::id::ObjectId;
use runtime::db::{Statement, Value};

/// Payments that were made from then on are in shards of days; those before are moved there.
const SHARDS_FROM_MS: u64 = OPENS_MS + 80 * DAY_MS;
pub(super) const NOW_MS: u64 = OPENS_MS + 340 * DAY_MS;
const SLOTS: u32 = 8;

/// What is left out, to see that the tests would notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protection {
    Real,
    /// What a shard that does not answer has is taken to be nowhere.
    SilentIsEmpty,
    /// Which shards there are is read once, before D1.
    DirectoryIsOld,
    /// Of a payment that D1 has nothing is asked or marked that its shard may have.
    MovedAreNotAsked,
    /// What is not found at once is unknown.
    LeftIsUnknown,
    /// What is due is written off before it is done.
    WrittenOffFirst,
    /// A payment of which Stripe says nothing usable ends the run.
    OneEndsTheRun,
}

pub(super) struct World {
    pub(super) d1: Connection,
    pub(super) shards: RefCell<BTreeMap<String, Connection>>,
    pub(super) layouts: Vec<Layout>,
    pub(super) clock: Arc<AtomicI64>,
    /// How many entries of the list are compared.
    pub(super) compared: Cell<usize>,
    pub(super) cursor: RefCell<Option<Cursor>>,
    pub(super) down: RefCell<Option<String>>,
    pub(super) directory: RefCell<Rc<BTreeSet<ShardName>>>,
    pub(super) errors: RefCell<Vec<String>>,
    pub(super) waited: RefCell<BTreeSet<String>>,
    /// The most requests that a run has made.
    pub(super) requests: Cell<u32>,
    /// How often D1 was asked for payments.
    pub(super) d1_asked: Cell<u32>,
    /// How much later it is than at the beginning, in ms.
    pub(super) later_ms: Cell<u64>,
    /// How often Stripe was asked about what it says nothing usable about.
    pub(super) unanswered: RefCell<BTreeMap<String, u32>>,
    pub(super) protection: Protection,
    pub(super) rng: Rng,
}

impl World {
    pub(super) fn new(seed: u64, protection: Protection) -> Self {
        let layout = Layout {
            layout_id: 1 + seed % 2,
            from_ms: SHARDS_FROM_MS,
            slots: SLOTS,
            period: Period::Day,
            spread: BTreeMap::from([("account:1".to_owned(), 3), ("account:2".to_owned(), SLOTS)]),
            moved_since_ms: Some(0),
            moved_at_ms: Some(SHARDS_FROM_MS),
        };
        let clock = Arc::new(AtomicI64::new(0));
        let d1 = database(&clock);
        let sql = "INSERT INTO shard_layouts (layout_id, from_ms, slots, spread, moved_since_ms, moved_at_ms, made_at_ms, period)
             VALUES (?2, ?1, 8, '{}', 0, ?1, 1, 'day')";
        d1.execute(sql, [SHARDS_FROM_MS, layout.layout_id].map(u64::cast_signed)).unwrap();
        let mut insert = d1.prepare("INSERT INTO shards (name, made_at_ms) VALUES (?1, 1)").unwrap();
        for day in 80..340 {
            let period = Period::Day.of(OPENS_MS + day * DAY_MS);
            for slot in 0..SLOTS {
                let name = ShardName { period: period.clone(), layout_id: layout.layout_id, slot };
                insert.execute([name.to_string()]).unwrap();
            }
        }
        drop(insert);
        let world = Self {
            d1,
            shards: RefCell::default(),
            layouts: vec![layout],
            clock,
            compared: Cell::new(0),
            cursor: RefCell::default(),
            down: RefCell::default(),
            directory: RefCell::default(),
            errors: RefCell::default(),
            waited: RefCell::default(),
            requests: Cell::new(0),
            d1_asked: Cell::new(0),
            later_ms: Cell::new(0),
            unanswered: RefCell::default(),
            protection,
            rng: Rng::new(seed),
        };
        for payment in (0..PAYMENTS).map(Payment::number).filter(Payment::is_ours) {
            let object = payment.object.to_hex();
            let home = placement::home(&world.layouts, &payment.owner, payment.made_at_ms, &object, NOW_MS);
            match home.shard.filter(|_| !home.was_in_d1) {
                None => payment.write(&world.d1),
                Some(shard) => payment.write(
                    world
                        .shards
                        .borrow_mut()
                        .entry(shard.to_string())
                        .or_insert_with(|| database(&world.clock)),
                ),
            }
        }
        world
    }

    async fn each<A: ?Sized, T: Default>(
        &self,
        asks: &Asks<A>,
        ask: impl Fn(&Connection, &A) -> T,
    ) -> Answers<T> {
        let mut answers = Answers { each: Vec::new(), missing: None };
        for (shard, question) in asks {
            // Most are empty: some answer together.
            if self.rng.roll(4) == 0 {
                turn().await;
            }
            let name = shard.to_string();
            if self.down.borrow().as_ref() == Some(&name) {
                if self.protection != Protection::SilentIsEmpty {
                    answers.missing = Some(format!("{name} is down"));
                }
                continue;
            }
            let shards = self.shards.borrow();
            let answer = shards.get(&name).map(|place| ask(place, question)).unwrap_or_default();
            answers.each.push((shard.clone(), answer));
        }
        turn().await;
        answers
    }

    async fn all_shards(&self) -> Rc<BTreeSet<ShardName>> {
        turn().await;
        let known = Rc::clone(&self.directory.borrow());
        let mut count = self.d1.prepare_cached("SELECT count(*) FROM shards").unwrap();
        let count = count.query_row((), |row| row.get::<_, u32>(0)).unwrap();
        let is_old = self.protection == Protection::DirectoryIsOld && !known.is_empty();
        // There are thousands, and none is ever taken out: as many are the same ones.
        if is_old || count as usize == known.len() {
            return known;
        }
        let rows = json_rows(&self.d1, &Statement::new("SELECT name FROM shards", Vec::new()));
        let shards: Rc<BTreeSet<ShardName>> = Rc::new(
            rows.iter().map(|row| ShardName::parse(row["name"].as_str().unwrap()).unwrap()).collect(),
        );
        self.directory.replace(Rc::clone(&shards));
        shards
    }
}

impl Places for &World {
    fn now_ms(&self) -> u64 {
        NOW_MS + self.later_ms.get()
    }

    async fn layouts(&self) -> worker::Result<Rc<[Layout]>> {
        turn().await;
        let mut layouts = self.layouts.clone();
        if self.protection == Protection::MovedAreNotAsked {
            layouts.iter_mut().for_each(|layout| layout.moved_since_ms = None);
        }
        Ok(layouts.into())
    }

    async fn shards_behind(&self, after: Option<&ShardName>, most: usize) -> worker::Result<Vec<ShardName>> {
        let all = self.all_shards().await;
        let behind = (Bound::Unbounded, after.map_or(Bound::Unbounded, Bound::Excluded));
        Ok(all.range::<ShardName, _>(behind).rev().take(most).cloned().collect())
    }

    async fn shards_of_periods(
        &self,
        periods: &BTreeSet<String>,
        most: usize,
    ) -> worker::Result<Vec<ShardName>> {
        let all = self.all_shards().await;
        Ok(all.iter().filter(|shard| periods.contains(&shard.period)).take(most).cloned().collect())
    }

    async fn shards_named(&self, names: &BTreeSet<ShardName>) -> worker::Result<Vec<ShardName>> {
        Ok(self.all_shards().await.intersection(names).cloned().collect())
    }

    async fn rows<T: DeserializeOwned>(&self, statement: Statement) -> worker::Result<Vec<T>> {
        turn().await;
        self.d1_asked.set(self.d1_asked.get() + u32::from(statement.sql.contains("FROM payments ")));
        let rows = json_rows(&self.d1, &statement);
        Ok(rows.into_iter().map(|row| serde_json::from_value(row).unwrap()).collect())
    }

    async fn batch(&self, statements: Vec<Statement>) -> worker::Result<Vec<usize>> {
        turn().await;
        let changed = transaction(&self.d1, &statements);
        // It is done, and who asked may never learn it.
        turn().await;
        Ok(changed)
    }

    async fn shard_rows<T: DeserializeOwned>(
        &self,
        asks: &Asks<Statement>,
    ) -> worker::Result<Answers<Vec<T>>> {
        let read = |connection: &Connection, statement: &Statement| {
            let rows = json_rows(connection, statement);
            rows.into_iter().map(|row| serde_json::from_value(row).unwrap()).collect()
        };
        Ok(self.each(asks, read).await)
    }

    async fn shard_batch(&self, asks: &Asks<[Statement]>) -> worker::Result<Answers<Vec<usize>>> {
        Ok(self.each(asks, transaction).await)
    }
}

impl Objects for &World {
    async fn payments_of(&self, objects: &[ObjectId]) -> Vec<Option<JobPayment>> {
        turn().await;
        let all: BTreeMap<ObjectId, Payment> =
            (0..PAYMENTS).map(Payment::number).map(|payment| (payment.object, payment)).collect();
        let told = |object: &ObjectId| {
            let payment = all.get(object).filter(|payment| payment.kind != Kind::Nobodys)?;
            Some(JobPayment { owner: payment.owner.clone(), made_at_ms: payment.made_at_ms })
        };
        objects.iter().map(told).collect()
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

    async fn batch(&self, place: Option<&ShardName>, statements: Vec<Statement>) -> Result<(), String> {
        turn().await;
        match place.map(ToString::to_string) {
            None => drop(transaction(&self.d1, &statements)),
            Some(name) if self.down.borrow().as_ref() == Some(&name) => {
                return Err(format!("{name} is down"));
            }
            Some(name) => {
                let mut shards = self.shards.borrow_mut();
                transaction(shards.entry(name).or_insert_with(|| database(&self.clock)), &statements);
            }
        }
        turn().await;
        Ok(())
    }

    async fn write_down(&self, shard: &ShardName) -> Result<(), String> {
        turn().await;
        let sql = "INSERT INTO shards (name, made_at_ms) VALUES (?1, 1) ON CONFLICT DO NOTHING";
        self.d1.execute(sql, [shard.to_string()]).unwrap();
        Ok(())
    }
}
