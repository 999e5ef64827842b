//! The tables are lost and made anew, and the bucket is not: what its files have settled is settled no second time.

#[cfg(test)]
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use data_encoding::HEXLOWER;
use rusqlite::Connection;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

use super::settlement_job;
use super::settlement_run::Stores;
use super::shards::settled_payments::{block, database, json_rows, transaction};
use runtime::db::Statement;

const HOUR_MS: u64 = 3_600_000;
const DAY_MS: u64 = 24 * HOUR_MS;
const OPENS_MS: u64 = 20_800 * DAY_MS;

struct World {
    d1: RefCell<Connection>,
    clock: Arc<AtomicI64>,
    now_ms: Cell<u64>,
    bucket: RefCell<BTreeMap<String, String>>,
    /// When each payment was captured.
    captured_ms: RefCell<Vec<u64>>,
    part_lines: u64,
}

impl World {
    fn new(part_lines: u64) -> Self {
        let clock = Arc::new(AtomicI64::new(0));
        let world = Self {
            d1: RefCell::new(database(&clock)),
            clock,
            now_ms: Cell::new(0),
            bucket: RefCell::default(),
            captured_ms: RefCell::default(),
            part_lines,
        };
        world.is_at(OPENS_MS);
        world
    }

    fn is_at(&self, now_ms: u64) {
        self.now_ms.set(now_ms);
        self.clock.store((now_ms / 1000).cast_signed(), Ordering::Relaxed);
    }

    /// An hour after the other passes until then. In each a payment is captured, and a run closes and writes what is due.
    fn goes_on_until(&self, until_ms: u64) {
        while self.now_ms.get() < until_ms {
            self.captures();
            self.tell(self.captured_ms.borrow().len() - 1);
            self.is_at(self.now_ms.get() + HOUR_MS);
            block(settlement_job::run(self, self.part_lines)).unwrap();
        }
    }

    fn captures(&self) {
        self.captured_ms.borrow_mut().push(self.now_ms.get());
    }

    /// The payment's object tells of it.
    fn tell(&self, number: usize) {
        let at_ms = self.captured_ms.borrow()[number].cast_signed();
        let sql = "INSERT INTO payments (payment_id, object, version, owner, status, amount_minor, captured_minor, refunded_minor, currency,
                provider, attempt, shown, created_at_ms, updated_at_ms, captured_data, captured_at_ms)
             VALUES (?1, 'object of ' || ?1, 1, 'a', 'succeeded', 9, 9, 0, 'usd', 'stripe', 1, '{}', ?2, ?2,
                '{\"provider\":\"stripe\",\"provider_payment\":\"pi\",\"amount_captured\":9,\"currency\":\"usd\"}', ?2)";
        self.d1.borrow().execute(sql, (format!("pay_{number:03}"), at_ms)).unwrap();
    }

    /// In which objects of the bucket each capture has a line.
    fn lines(&self) -> BTreeMap<usize, Vec<String>> {
        let mut found: BTreeMap<usize, Vec<String>> = BTreeMap::new();
        for (name, text) in &*self.bucket.borrow() {
            let ids = text.lines().filter_map(|line| line.strip_prefix("pay_")?.split_once(":capture,"));
            ids.for_each(|(number, _)| found.entry(number.parse().unwrap()).or_default().push(name.clone()));
        }
        found
    }

    fn told(&self) -> Option<String> {
        let sql = "SELECT group_concat(ours || ', ' || note, '; ') FROM breaks WHERE kind = 'settlement'";
        self.d1.borrow().query_row(sql, (), |row| row.get(0)).unwrap()
    }
}

impl Stores for World {
    fn now_ms(&self) -> u64 {
        self.now_ms.get()
    }

    async fn rows<T: DeserializeOwned>(&self, _: &str, statement: Statement) -> worker::Result<Vec<T>> {
        let rows = json_rows(&self.d1.borrow(), &statement);
        Ok(rows.into_iter().map(|row| serde_json::from_value(row).unwrap()).collect())
    }

    async fn batch(&self, _: &str, statements: Vec<Statement>) -> worker::Result<Vec<usize>> {
        Ok(transaction(&self.d1.borrow(), &statements))
    }

    async fn put_new(&self, name: &str, text: String) -> worker::Result<Option<String>> {
        let sha256 = HEXLOWER.encode(&Sha256::digest(text.as_bytes()));
        let there = self.bucket.borrow_mut().entry(name.to_owned()).or_insert_with(|| text.clone()).clone();
        Ok((there == text).then_some(sha256))
    }

    async fn names(&self) -> worker::Result<Vec<String>> {
        let bucket = self.bucket.borrow();
        Ok(bucket.keys().filter(|name| name.matches('/').count() == 1).cloned().collect())
    }
}

/// For how long nothing runs once the tables are lost; and in parts of how many lines a day is written.
fn nothing_is_settled_twice(lost_for_ms: u64, part_lines: u64) {
    let world = World::new(part_lines);
    world.goes_on_until(OPENS_MS + 3 * DAY_MS + 5 * HOUR_MS);
    // One of which nothing was told by then: it is in no file.
    world.captures();
    let untold = world.captured_ms.borrow().len() - 1;
    world.captured_ms.borrow_mut()[untold] = OPENS_MS + DAY_MS;
    let settled_until_ms = OPENS_MS + 3 * DAY_MS;
    let settled = world.lines();
    assert_eq!(settled.len(), 72);

    world.d1.replace(database(&world.clock));
    world.is_at(world.now_ms.get() + lost_for_ms);
    // Half of it is there before the first run, and the rest comes later.
    let known = world.captured_ms.borrow().len();
    (0..known).filter(|number| number % 2 == 0).for_each(|number| world.tell(number));
    world.goes_on_until(world.now_ms.get() + 4 * HOUR_MS);
    (0..known).filter(|number| number % 2 == 1).for_each(|number| world.tell(number));
    world.goes_on_until(OPENS_MS + 9 * DAY_MS);

    let lines = world.lines();
    let twice: Vec<_> = lines.iter().filter(|(_, files)| files.len() > 1).collect();
    assert!(twice.is_empty(), "{twice:?}");
    assert!(settled.iter().all(|(number, files)| lines.get(number) == Some(files)));
    // All that moved since has its line.
    let captured_ms = world.captured_ms.borrow();
    let due = settled_until_ms..OPENS_MS + 8 * DAY_MS;
    for (number, at_ms) in captured_ms.iter().enumerate().filter(|(_, at_ms)| due.contains(at_ms)) {
        assert!(lines.contains_key(&number), "{number}, {at_ms}");
    }
    // What moved before is for a person: of the days of which the bank's files say it.
    let told = world.told().unwrap();
    let counts = told.split("; ").filter_map(|told| told.split_once(" movements")?.0.parse::<usize>().ok());
    assert_eq!(counts.sum::<usize>(), 73, "{told}");
    assert!(!lines.contains_key(&untold));
}

#[test]
fn what_the_bucket_has_is_settled_once_where_the_tables_are_made_anew_at_once() {
    nothing_is_settled_twice(0, 100);
}

#[test]
fn so_it_is_where_they_are_made_anew_days_later() {
    nothing_is_settled_twice(2 * DAY_MS, 100);
}

#[test]
fn so_it_is_where_days_are_written_in_parts() {
    nothing_is_settled_twice(DAY_MS, 5);
}
