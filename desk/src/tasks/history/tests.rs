//! Two runs at once, broken off anywhere, with a bucket and a database that fail, while payments change: each row is in exactly one place. What
//! is played here is the task's own steps and SQL, on a SQLite with the read model's migrations.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use rusqlite::types::{Value as Sql, ValueRef};
use rusqlite::{Connection, params};
use serde_json::{Map, Value as Json};
use sha2::{Digest, Sha256};
use worker::{Error, Result};

use super::parquet::tests::decode;
use super::steps::{Bounds, Done, Files, Tables, step};
use super::{rows, statements};
use crate::tasks::late::tests::read_model;
use runtime::db::Value;

const PAYMENTS: u32 = 8;
const OCTOBER_MS: i64 = 1_790_812_800_000;
const BOUNDS: Bounds =
    Bounds { made_before_ms: u64::MAX >> 12, unchanged_since_ms: u64::MAX >> 12, now_ms: 1_900_000_000_000 };

/// What protects the rows, and is switched off to see that this is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Off {
    Nothing,
    /// That nothing has changed is not looked at as the rows go.
    Check,
    /// What is in the bucket is believed.
    Comparison,
    /// What is claimed and what goes is no transaction.
    Transaction,
    /// The audit records in a file are not remembered.
    Memory,
}

struct World {
    db: Connection,
    objects: RefCell<BTreeMap<String, Vec<u8>>>,
    random: Cell<u64>,
    off: Off,
    is_calm: Cell<bool>,
    /// The newest version and audit record of each payment.
    told: RefCell<Vec<(u32, u32)>>,
}

impl World {
    fn new(seed: u64, off: Off) -> Self {
        let world = Self {
            db: read_model(),
            objects: RefCell::default(),
            random: Cell::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
            off,
            is_calm: Cell::new(false),
            told: RefCell::new(vec![(0, 0); PAYMENTS as usize]),
        };
        (0..PAYMENTS).for_each(|payment| world.tell(payment));
        world
    }

    fn random(&self, below: u32) -> u32 {
        let mut x = self.random.get();
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.random.set(x);
        ((x >> 11) % u64::from(below)) as u32
    }

    /// The payment's object tells what is new, as `src/readmodel/project.rs` writes it: a row, its key and its refund at a new version, and one
    /// audit record; the first ones in the payment's own row.
    fn tell(&self, payment: u32) {
        let (id, object) = names(payment);
        let (version, audit_id) = {
            let told = &mut self.told.borrow_mut()[payment as usize];
            *told = (told.0 + 1, told.1 + 1);
            *told
        };
        let at_ms = OCTOBER_MS + i64::from(payment) * 9 * 86_400_000;
        let created_data = (audit_id == 1).then_some("{}");
        self.db
            .execute(
                "INSERT INTO payments (payment_id, object, version, owner, status, amount_minor, captured_minor, refunded_minor,
                    currency, provider, provider_payment, attempt, shown, created_at_ms, updated_at_ms, key_hash, created_data)
                 VALUES (?1, ?2, ?3, 'account:a', 'succeeded', 5, 5, 0, 'usd', 'stripe', 'pi_' || ?1, 1, '{}', ?4, ?4, 'h', ?5)
                 ON CONFLICT (payment_id) DO UPDATE SET version = excluded.version,
                    created_data = coalesce(created_data, excluded.created_data)",
                params![id, object, version, at_ms, created_data],
            )
            .unwrap();
        self.db
            .execute(
                "INSERT INTO refunds (refund_id, payment_id, version, status, amount_minor, currency, reason, provider, created_at_ms,
                    updated_at_ms) VALUES ('re_' || ?1, ?1, ?2, 'succeeded', 1, 'usd', 'r', 'stripe', ?3, ?3)
                 ON CONFLICT (refund_id) DO UPDATE SET version = excluded.version",
                params![id, version, at_ms],
            )
            .unwrap();
        if created_data.is_none() {
            self.record(payment, audit_id);
        }
    }

    /// A record that comes by itself: a message that was late.
    fn tell_late(&self, payment: u32) {
        let audit_id = {
            let told = &mut self.told.borrow_mut()[payment as usize];
            told.1 += 1;
            told.1
        };
        self.record(payment, audit_id);
    }

    fn record(&self, payment: u32, audit_id: u32) {
        let (id, object) = names(payment);
        let sql = "INSERT INTO audit_records VALUES (?1, ?2, 7, 'account:a', 'x', ?3, '{}')";
        self.db.execute(sql, params![object, audit_id, id]).unwrap();
    }

    /// Somebody else's turn comes first; then it fails, is done and its answer is lost, or is done.
    async fn turn<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        Turn(false).await;
        let lost = || Err(Error::RustError("lost".to_owned()));
        match if self.is_calm.get() { 99 } else { self.random(40) } {
            0 => lost(),
            1 => work().and_then(|_| lost()),
            _ => work(),
        }
    }

    fn put_rows(&self, sql: &str, values: Vec<Value>) -> Result<usize> {
        self.db.execute(sql, bound(values)).map_err(|error| Error::RustError(format!("{error}: {sql}")))
    }
}

/// Gives way once.
struct Turn(bool);

impl Future for Turn {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) { Poll::Ready(()) } else { Poll::Pending }
    }
}

fn bound(values: Vec<Value>) -> rusqlite::ParamsFromIter<Vec<Sql>> {
    rusqlite::params_from_iter(
        values
            .into_iter()
            .map(|value| match value {
                Value::Null => Sql::Null,
                Value::Number(number) => Sql::Integer(number.try_into().unwrap()),
                Value::Text(text) => Sql::Text(text),
            })
            .collect(),
    )
}

impl Tables for World {
    async fn rows<T: serde::de::DeserializeOwned>(&self, sql: &str, values: Vec<Value>) -> Result<Vec<T>> {
        self.turn(|| {
            let mut statement = self.db.prepare(sql).unwrap();
            let names: Vec<String> = statement.column_names().map(str::to_owned).collect();
            let mut found = statement.query(bound(values)).unwrap();
            let mut rows = Vec::new();
            while let Some(row) = found.next().unwrap() {
                let cell = |index| match row.get_ref(index).unwrap() {
                    ValueRef::Integer(number) => number.into(),
                    ValueRef::Text(text) => String::from_utf8(text.to_vec()).unwrap().into(),
                    _ => Json::Null,
                };
                let cells: Map<String, Json> =
                    names.iter().enumerate().map(|(index, name)| (name.clone(), cell(index))).collect();
                rows.push(serde_json::from_value(cells.into())?);
            }
            Ok(rows)
        })
        .await
    }

    async fn batch(&self, statements: Vec<(&str, Vec<Value>)>) -> Result<Vec<usize>> {
        let run = |(sql, values): (&str, Vec<Value>)| match (self.off, sql) {
            (Off::Check, statements::WRITTEN) => {
                let unchecked = "UPDATE history_batches SET state = 'written', payments = ?6 ->> 'payments', changed_at_ms = ?7
                         WHERE batch = ?1 AND state = 'writing' AND coalesce(?2, ?3, ?4, ?5) IS NOT NULL";
                self.put_rows(unchecked, values)
            }
            (Off::Memory, statements::KEEP_PAYMENTS) => {
                let changed = self.put_rows(sql, values);
                self.db.execute("UPDATE history_payments SET audit_through = 0", ()).unwrap();
                changed
            }
            _ => self.put_rows(sql, values),
        };
        if self.off == Off::Transaction {
            let mut changed = Vec::new();
            for statement in statements {
                changed.push(self.turn(|| run(statement)).await?);
            }
            return Ok(changed);
        }
        self.turn(|| {
            let transaction = self.db.unchecked_transaction().unwrap();
            let changed = statements.into_iter().map(run).collect::<Result<_>>()?;
            transaction.commit().unwrap();
            Ok(changed)
        })
        .await
    }
}

impl Files for World {
    async fn put_new(&self, name: &str, body: Vec<u8>) -> Result<()> {
        self.turn(|| {
            self.objects.borrow_mut().entry(name.to_owned()).or_insert(body);
            Ok(())
        })
        .await
    }

    async fn get(&self, name: &str) -> Result<Option<Vec<u8>>> {
        self.turn(|| Ok(self.objects.borrow().get(name).cloned())).await
    }

    async fn delete(&self, name: &str) -> Result<()> {
        self.turn(|| {
            self.objects.borrow_mut().remove(name);
            Ok(())
        })
        .await
    }
}

/// The world, with a bucket that is believed.
struct Believing<'a>(&'a World, RefCell<BTreeMap<String, Vec<u8>>>);

impl Files for Believing<'_> {
    async fn put_new(&self, name: &str, body: Vec<u8>) -> Result<()> {
        self.1.borrow_mut().insert(name.to_owned(), body.clone());
        self.0.put_new(name, body).await
    }

    async fn get(&self, name: &str) -> Result<Option<Vec<u8>>> {
        Ok(self.1.borrow().get(name).cloned())
    }

    async fn delete(&self, name: &str) -> Result<()> {
        self.0.delete(name).await
    }
}

fn names(payment: u32) -> (String, String) {
    (format!("pay_{payment}"), format!("{payment:064x}"))
}

/// A run of the task: some steps, or until one fails.
async fn run(world: &World) -> Result<Done> {
    let believing = Believing(world, RefCell::default());
    for _ in 0..6 {
        let done = match world.off {
            Off::Comparison => step(world, &believing, BOUNDS).await?,
            _ => step(world, world, BOUNDS).await?,
        };
        if done.is_through {
            return Ok(done);
        }
    }
    Ok(Done::default())
}

fn play(seed: u64, off: Off) -> std::result::Result<(), String> {
    let world = World::new(seed, off);
    let waker = &mut Context::from_waker(Waker::noop());
    let begin = || Box::pin(run(&world));
    let mut runs = [begin(), begin()];
    for _ in 0..400 {
        let which = world.random(2) as usize;
        match world.random(60) {
            // Killed, wherever it was.
            0 => runs[which] = begin(),
            1 => world.tell(world.random(PAYMENTS)),
            2 => world.tell_late(world.random(PAYMENTS)),
            _ => {
                if runs[which].as_mut().poll(waker).is_ready() {
                    runs[which] = begin();
                }
            }
        }
    }
    // From here on nothing fails: what is left leaves.
    drop(runs);
    world.is_calm.set(true);
    for _ in 0..12 {
        let mut last = pin!(run(&world));
        while last.as_mut().poll(waker).is_pending() {}
    }
    judge(&world)
}

/// Each version and each audit record is in one place, and each listed file is what the list says.
fn judge(world: &World) -> std::result::Result<(), String> {
    let mut places: BTreeMap<(String, String, u32), u32> = BTreeMap::new();
    let mut put =
        |kind: &str, id: String, number: u32| *places.entry((kind.to_owned(), id, number)).or_default() += 1;
    let hot = "SELECT 'payments', payment_id, version FROM payments UNION ALL SELECT 'refunds', refund_id, version FROM refunds
        UNION ALL SELECT 'audit', object, audit_id FROM audit_trail";
    let mut statement = world.db.prepare(hot).unwrap();
    let cells = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    for row in statement.query_map((), cells).unwrap() {
        let (kind, id, number): (String, String, u32) = row.unwrap();
        put(&kind, id, number);
    }
    let mut objects = world.objects.borrow().clone();
    let mut statement = world.db.prepare("SELECT kind, name, sha256, rows FROM history_files").unwrap();
    let cells = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?));
    for row in statement.query_map((), cells).unwrap() {
        let (kind, name, sha256, number): (String, String, String, u32) = row.unwrap();
        let body = objects.remove(&name).ok_or(format!("{name} is listed and is not there"))?;
        if data_encoding::HEXLOWER.encode(&Sha256::digest(&body)) != sha256 {
            return Err(format!("{name} is another one than is listed"));
        }
        let (id, version) = match kind.as_str() {
            "payments" => ("payment_id", "version"),
            "refunds" => ("refund_id", "version"),
            "audit" => ("object", "audit_id"),
            _ => continue,
        };
        let columns = match kind.as_str() {
            "payments" => decode(&body, &rows::PAYMENTS),
            "refunds" => decode(&body, &rows::REFUNDS),
            _ => decode(&body, &rows::AUDIT),
        };
        if columns[id].len() != number as usize {
            return Err(format!("{name} has {} rows, {number} are listed", columns[id].len()));
        }
        for (id, version) in columns[id].iter().zip(&columns[version]) {
            put(&kind, id.clone().unwrap(), version.as_ref().unwrap().parse().unwrap());
        }
    }
    if let Some(name) = objects.keys().next() {
        return Err(format!("{name} is there and is not listed"));
    }
    if let Some(twice) = places.iter().find(|(_, number)| **number > 1) {
        return Err(format!("{twice:?} is there more than once"));
    }
    let is_there: BTreeSet<_> = places.into_keys().collect();
    for (payment, (version, audit)) in (0..).zip(&*world.told.borrow()) {
        let (id, object) = names(payment);
        let newest = [("payments", id.clone(), *version), ("refunds", format!("re_{id}"), *version)];
        let audit = (1..=*audit).map(|audit_id| ("audit", object.clone(), audit_id));
        for (kind, id, number) in newest.into_iter().chain(audit) {
            if !is_there.contains(&(kind.to_owned(), id.clone(), number)) {
                return Err(format!("{kind} {id} {number} is lost"));
            }
        }
    }
    let left: u32 =
        world.db.query_row("SELECT count(*) FROM history_payments", (), |row| row.get(0)).unwrap();
    let hot: u32 = world.db.query_row("SELECT count(*) FROM payments", (), |row| row.get(0)).unwrap();
    if (left, hot) == (PAYMENTS, 0) { Ok(()) } else { Err(format!("{left} have left, {hot} are still here")) }
}

#[test]
fn each_row_is_in_one_place_whatever_breaks_off() {
    for seed in 1..=40 {
        assert_eq!(play(seed, Off::Nothing), Ok(()), "seed {seed}");
    }
}

#[test]
fn control_without_its_protections_rows_are_lost_or_doubled() {
    for off in [Off::Check, Off::Comparison, Off::Transaction, Off::Memory] {
        let found = (1..=2_000).find_map(|seed| play(seed, off).err());
        assert!(found.is_some(), "{off:?}");
    }
}

/// What is open stays, and what was found of the others is kept with it.
#[test]
fn what_is_not_over_stays() {
    let keeps = [
        "UPDATE payments SET status = 'requires_capture'",
        "UPDATE payments SET status = 'capture_failed'",
        "UPDATE payments SET status = 'disputed', shown = '{\"dispute\":{\"status\":\"open\"}}'",
        "UPDATE payments SET status = 'disputed', shown = '{\"dispute\":{\"status\":\"lost\"}}'",
        "UPDATE payments SET pending_operation = 'capture'",
        "UPDATE payments SET wake_at_ms = 5",
        "UPDATE payments SET key_expires_at_ms = 1900000000001",
        "UPDATE payments SET updated_at_ms = 4503599627370495",
        "UPDATE refunds SET status = 'pending'",
        "INSERT INTO breaks (break_id, kind, provider, resource, state, first_seen_at_ms, last_seen_at_ms)
            SELECT payment_id, 'status', 'stripe', payment_id, 'open', 1, 1 FROM payments",
        "INSERT INTO jobs (job_id, kind, object, state, attempts, first_at_ms, history, staged_at_ms, updated_at_ms)
            SELECT payment_id, 'send_receipt', object, 'dead', 1, 1, '[]', 1, 1 FROM payments",
        "INSERT INTO keys (object, key_id, version, key_hash, owner, status, recovery_point, attempts, failures, in_doubt, flagged,
            created_at_ms, updated_at_ms) SELECT object, 2, 1, 'k', 'account:a', 'open', 'reserved', 1, 0, 0, 0, 1, 1 FROM payments",
    ];
    let leaves = "UPDATE payments SET status = 'canceled'";
    for (sql, left) in keeps.map(|sql| (sql, 0)).into_iter().chain([(leaves, PAYMENTS)]) {
        let world = World::new(1, Off::Nothing);
        world.is_calm.set(true);
        world.db.execute_batch(sql).unwrap();
        let waker = &mut Context::from_waker(Waker::noop());
        for _ in 0..4 {
            let mut run = pin!(run(&world));
            while run.as_mut().poll(waker).is_pending() {}
        }
        let gone: u32 =
            world.db.query_row("SELECT count(*) FROM history_payments", (), |row| row.get(0)).unwrap();
        assert_eq!(gone, left, "{sql}");
    }
}
