//! A read model of the tests' own, with the read model's migrations on SQLites: D1 alone, or with shards, to which movers take what was in D1; a
//! bucket; and payments that go on changing. What reaches a database or the bucket may fail, or be done without an answer.

#[cfg(test)]
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use rusqlite::types::ValueRef;
use rusqlite::{Connection, params};
use serde_json::{Map, Value as Json};
use worker::{Error, Result};

use super::steps::{Bounds, Done, Files, OfShard, Place, Tables};
use super::{statements, turns};
use crate::tasks::late::tests::read_model;
use crate::tasks::shards::mover::{self, Cursor, Stores};
use crate::tasks::simulation::{self, bound, execute};
use messages::placement::{self, Layout, Period, ShardName};
use runtime::db::{Statement, Value};

pub(super) const PAYMENTS: u32 = 8;
const OCTOBER_MS: i64 = 1_790_812_800_000;
pub(super) const BOUNDS: Bounds =
    Bounds { made_before_ms: u64::MAX >> 12, unchanged_since_ms: u64::MAX >> 12, now_ms: 1_900_000_000_000 };

/// What protects the rows, and is switched off to see that this is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Disabled {
    Nothing,
    /// That nothing has changed is not looked at as the rows go.
    Check,
    /// What is in the bucket is believed.
    Comparison,
    /// What is claimed and what goes is no transaction.
    Transaction,
    /// The audit records in a file are not remembered.
    Memory,
    /// What is moved leaves from D1, too.
    Move,
    /// A shard does not ask what has left from D1.
    Known,
}

/// How far a move to shards is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Move {
    Never,
    /// It stands in D1, and some know it already.
    Set,
    /// All know it, and the mover may begin.
    Begun,
}

pub(super) struct World {
    pub(super) d1: Rc<Connection>,
    pub(super) shards: RefCell<BTreeMap<ShardName, Rc<Connection>>>,
    /// Which shards do not answer, and how often each was asked.
    pub(super) silent: RefCell<BTreeMap<ShardName, u32>>,
    pub(super) layouts: Vec<Layout>,
    pub(super) moving: Cell<Move>,
    cursor: RefCell<Option<Cursor>>,
    pub(super) objects: RefCell<BTreeMap<String, Vec<u8>>>,
    /// What was in the bucket before the first batch began.
    pub(super) of_before: RefCell<BTreeSet<String>>,
    random: Cell<u64>,
    off: Disabled,
    pub(super) is_calm: Cell<bool>,
    /// The newest version and audit record of each payment.
    pub(super) told: RefCell<Vec<(u32, u32)>>,
}

impl World {
    pub(super) fn new(seed: u64, off: Disabled) -> Self {
        Self::with(seed, off, Vec::new())
    }

    /// Half of the payments are made in D1, and moved later; the others are made in shards.
    pub(super) fn with_shards(seed: u64, off: Disabled) -> Self {
        let from_ms = made_at_ms(PAYMENTS / 2).cast_unsigned();
        let layout = Layout {
            layout_id: 1,
            from_ms,
            slots: 2,
            period: Period::Month,
            spread: BTreeMap::from([("account:a".to_owned(), 2)]),
            moved_since_ms: Some(0),
            moved_at_ms: Some(from_ms),
        };
        Self::with(seed, off, vec![layout])
    }

    fn with(seed: u64, off: Disabled, layouts: Vec<Layout>) -> Self {
        let world = Self {
            d1: Rc::new(read_model()),
            shards: RefCell::default(),
            silent: RefCell::default(),
            layouts,
            moving: Cell::new(Move::Never),
            cursor: RefCell::default(),
            objects: RefCell::default(),
            of_before: RefCell::default(),
            random: Cell::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
            off,
            is_calm: Cell::new(false),
            told: RefCell::new(vec![(0, 0); PAYMENTS as usize]),
        };
        (0..PAYMENTS).for_each(|payment| world.tell(payment));
        world
    }

    pub(super) fn random(&self, below: u32) -> u32 {
        let mut x = self.random.get();
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.random.set(x);
        ((x >> 11) % u64::from(below)) as u32
    }

    /// Where a payment stands: from the begin of a move on in a shard; between, where whoever writes believes it to.
    fn home(&self, payment: u32) -> Rc<Connection> {
        let now_ms = match self.moving.get() {
            Move::Set if self.random(2) == 0 => BOUNDS.now_ms,
            Move::Begun => BOUNDS.now_ms,
            _ => 0,
        };
        let (_, object) = names(payment);
        let home =
            placement::home(&self.layouts, "account:a", made_at_ms(payment).cast_unsigned(), &object, now_ms);
        home.shard.map_or_else(|| Rc::clone(&self.d1), |shard| self.shard(&shard))
    }

    fn shard(&self, name: &ShardName) -> Rc<Connection> {
        Rc::clone(self.shards.borrow_mut().entry(name.clone()).or_insert_with(|| Rc::new(read_model())))
    }

    /// D1 and the shards that there are.
    pub(super) fn places(&self) -> Vec<(Option<ShardName>, Rc<Connection>)> {
        let shards = self
            .shards
            .borrow()
            .iter()
            .map(|(name, db)| (Some(name.clone()), Rc::clone(db)))
            .collect::<Vec<_>>();
        std::iter::once((None, Rc::clone(&self.d1))).chain(shards).collect()
    }

    /// The next stage of a move. From the first one on it stands in D1.
    pub(super) fn goes_on_moving(&self) {
        let next = match self.moving.get() {
            Move::Never => Move::Set,
            _ => Move::Begun,
        };
        for layout in self.layouts.iter().filter(|_| next == Move::Set) {
            self.d1
                .execute(
                    "INSERT INTO shard_layouts (layout_id, from_ms, slots, spread, moved_since_ms, moved_at_ms, made_at_ms)
                     VALUES (?1, ?2, ?3, '{}', ?4, ?5, 1)",
                    params![
                        layout.layout_id.cast_signed(),
                        layout.from_ms.cast_signed(),
                        layout.slots,
                        layout.moved_since_ms.map(u64::cast_signed),
                        layout.moved_at_ms.map(u64::cast_signed)
                    ],
                )
                .unwrap();
        }
        self.moving.set(next);
    }

    /// The payment's object tells what is new, as `src/readmodel/project.rs` writes it: a row, its key and its refund at a new version, and one
    /// audit record; the first ones in the payment's own row.
    pub(super) fn tell(&self, payment: u32) {
        let (version, audit_id) = {
            let told = &mut self.told.borrow_mut()[payment as usize];
            *told = (told.0 + 1, told.1 + 1);
            *told
        };
        let db = self.home(payment);
        let created_data = (audit_id == 1).then_some("{}");
        row(&db, payment, version, created_data);
        if created_data.is_none() {
            record(&db, payment, audit_id);
        }
    }

    /// A record that comes by itself: a message that was late. Where there is no row of the payment any more, it brings that, too.
    pub(super) fn tell_late(&self, payment: u32) {
        let (version, audit_id) = {
            let told = &mut self.told.borrow_mut()[payment as usize];
            told.1 += 1;
            *told
        };
        let db = self.home(payment);
        let sql = "SELECT count(*) FROM payments WHERE payment_id = ?1";
        if db.prepare_cached(sql).unwrap().query_row([names(payment).0], |row| row.get::<_, u32>(0)).unwrap()
            == 0
        {
            row(&db, payment, version, None);
        }
        record(&db, payment, audit_id);
    }

    /// Somebody else's turn comes first; then it fails, is done and its answer is lost, or is done.
    async fn turn<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        simulation::turn().await;
        let lost = || Err(Error::RustError("lost".to_owned()));
        match if self.is_calm.get() { 99 } else { self.random(40) } {
            0 => lost(),
            1 => work().and_then(|_| lost()),
            _ => work(),
        }
    }
}

/// A payment's row and that of its refund, at a version.
fn row(db: &Connection, payment: u32, version: u32, created_data: Option<&str>) {
    let (id, object) = names(payment);
    let at_ms = made_at_ms(payment);
    execute(
        db,
        "INSERT INTO payments (payment_id, object, version, owner, status, amount_minor, captured_minor, refunded_minor,
            currency, provider, provider_payment, attempt, shown, created_at_ms, updated_at_ms, key_hash, created_data)
         VALUES (?1, ?2, ?3, 'account:a', 'succeeded', 5, 5, 0, 'usd', 'stripe', 'pi_' || ?1, 1, '{}', ?4, ?4, 'h', ?5)
         ON CONFLICT (payment_id) DO UPDATE SET version = excluded.version,
            created_data = coalesce(created_data, excluded.created_data)",
        params![id, object, version, at_ms, created_data],
    )
    .unwrap();
    execute(
        db,
        "INSERT INTO refunds (refund_id, payment_id, version, status, amount_minor, currency, reason, provider, created_at_ms,
            updated_at_ms) VALUES ('re_' || ?1, ?1, ?2, 'succeeded', 1, 'usd', 'r', 'stripe', ?3, ?3)
         ON CONFLICT (refund_id) DO UPDATE SET version = excluded.version",
        params![id, version, at_ms],
    )
    .unwrap();
}

fn record(db: &Connection, payment: u32, audit_id: u32) {
    let (id, object) = names(payment);
    let sql = "INSERT INTO audit_records VALUES (?1, ?2, 7, 'account:a', 'x', ?3, '{}')";
    execute(db, sql, params![object, audit_id, id]).unwrap();
}

fn put_rows(db: &Connection, sql: &str, values: Vec<Value>) -> Result<usize> {
    execute(db, sql, bound(&values)).map_err(|error| Error::RustError(format!("{error}: {sql}")))
}

/// What a place is in the world.
struct At<'a> {
    world: &'a World,
    name: Option<ShardName>,
    db: Rc<Connection>,
}

impl At<'_> {
    /// [`World::turn`], unless it does not answer.
    async fn turn<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        if let Some(asked) = self.name.as_ref().and_then(|name| self.world.silent.borrow().get(name).copied())
        {
            self.world.silent.borrow_mut().extend(self.name.clone().map(|name| (name, asked + 1)));
            return Err(Error::RustError("it does not answer".to_owned()));
        }
        self.world.turn(work).await
    }
}

/// What may not leave where it is moved, as the statements say it.
const IS_MOVED: &str = "slots > 0 AND";

impl Tables for At<'_> {
    async fn rows<T: serde::de::DeserializeOwned>(&self, sql: &str, values: Vec<Value>) -> Result<Vec<T>> {
        let sql = match self.world.off {
            Disabled::Move => sql.replace(IS_MOVED, "false AND"),
            Disabled::Known if sql == statements::KNOWN => format!("SELECT * FROM ({sql}) WHERE false"),
            _ => sql.to_owned(),
        };
        self.turn(|| {
            let mut statement = self.db.prepare_cached(&sql).unwrap();
            let names: Vec<String> = statement.column_names().map(str::to_owned).collect();
            let mut found = statement.query(bound(&values)).unwrap();
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
        let off = self.world.off;
        let run = |(sql, values): (&str, Vec<Value>)| match (off, sql) {
            (Disabled::Check, statements::WRITTEN) => {
                let unchecked = "UPDATE history_batches SET state = 'written', payments = ?6 ->> 'payments', changed_at_ms = ?7
                         WHERE batch = ?1 AND state = 'writing' AND coalesce(?2, ?3, ?4, ?5) IS NOT NULL";
                put_rows(&self.db, unchecked, values)
            }
            (Disabled::Memory, statements::KEEP_PAYMENTS) => {
                let changed = put_rows(&self.db, sql, values);
                execute(&self.db, "UPDATE history_payments SET audit_through = 0", ()).unwrap();
                changed
            }
            (Disabled::Move, _) => put_rows(&self.db, &sql.replace(IS_MOVED, "false AND"), values),
            _ => put_rows(&self.db, sql, values),
        };
        if off == Disabled::Transaction {
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

/// For the movers.
impl Stores for World {
    async fn texts(
        &self,
        place: Option<&ShardName>,
        sql: &str,
        values: Vec<Value>,
    ) -> std::result::Result<Vec<String>, String> {
        assert_eq!(place, None, "only D1 is read");
        let rows = self.turn(|| {
            let mut statement = self.d1.prepare_cached(sql).unwrap();
            let rows = statement.query_map(bound(&values), |row| row.get(0)).unwrap();
            Ok(rows.map(|row| row.unwrap()).collect())
        });
        rows.await.map_err(|error| error.to_string())
    }

    async fn batch(
        &self,
        place: Option<&ShardName>,
        statements: Vec<Statement>,
    ) -> std::result::Result<(), String> {
        let db = place.map_or_else(|| Rc::clone(&self.d1), |shard| self.shard(shard));
        let done = self.turn(|| {
            let transaction = db.unchecked_transaction().unwrap();
            for one in statements {
                put_rows(&db, &one.sql, one.values)?;
            }
            transaction.commit().unwrap();
            Ok(())
        });
        done.await.map_err(|error| error.to_string())
    }

    async fn write_down(&self, shard: &ShardName) -> std::result::Result<(), String> {
        self.shard(shard);
        Ok(())
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

    async fn delete_since(&self, name: &str, since_ms: u64) -> Result<()> {
        self.turn(|| {
            let written_at_ms = if self.of_before.borrow().contains(name) { 0 } else { BOUNDS.now_ms };
            if written_at_ms >= since_ms {
                self.objects.borrow_mut().remove(name);
            }
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

    async fn delete_since(&self, name: &str, since_ms: u64) -> Result<()> {
        self.0.delete_since(name, since_ms).await
    }
}

pub(super) fn names(payment: u32) -> (String, String) {
    (format!("pay_{payment}"), format!("{payment:064x}"))
}

fn made_at_ms(payment: u32) -> i64 {
    OCTOBER_MS + i64::from(payment) * 9 * 86_400_000
}

/// A run of the task. Gives what it has done, and which places failed.
pub(super) async fn run(world: &World) -> (Done, Vec<String>) {
    let at: Vec<(Option<String>, At<'_>)> = world
        .places()
        .into_iter()
        .map(|(name, db)| (name.as_ref().map(ShardName::to_string), At { world, name, db }))
        .collect();
    let d1 = &at[0].1;
    let from_ms = world.layouts.first().map_or(0, |layout| layout.from_ms);
    let places: Vec<Place<'_, At<'_>>> = at
        .iter()
        .map(|(name, tables)| Place {
            tables,
            shard: name.as_deref().map(|name| OfShard { name, d1, from_ms }),
        })
        .collect();
    let (chance, is_over) = (world.random(1000).into(), || false);
    let believing = Believing(world, RefCell::default());
    let run = match world.off {
        Disabled::Comparison => turns::run(&places, chance, &believing, BOUNDS, is_over).await,
        _ => turns::run(&places, chance, world, BOUNDS, is_over).await,
    };
    (run.done, run.failed.keys().map(|name| (*name).to_owned()).collect())
}

/// A mover, until a step fails or a pass is over.
pub(super) async fn moved(world: &World) {
    for layout in &world.layouts {
        let step = || {
            let cursor = world.cursor.borrow().clone();
            mover::step(world, &world.layouts, layout, cursor, BOUNDS.now_ms)
        };
        while let Ok(step) = step().await {
            world.cursor.replace(step.next.clone());
            if step.next.is_none() {
                break;
            }
        }
    }
}

pub(super) fn finish<T>(work: impl Future<Output = T>) -> T {
    let waker = &mut Context::from_waker(Waker::noop());
    let mut work = pin!(work);
    loop {
        if let Poll::Ready(done) = work.as_mut().poll(waker) {
            return done;
        }
    }
}
