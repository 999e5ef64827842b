//! The mover over databases of the tests' own: broken off at every step, two at once, with snapshots of the payments in between, late and
//! doubled ones, to the right place and to D1. In the end each payment stands in its shard, once, as it was told last.

#[cfg(test)]
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use rusqlite::Connection;

use super::mover::{self, Cursor, Stores};
use crate::tasks::late::tests::read_model;
use crate::tasks::simulation::{Rng, bound, execute, turn};
use messages::placement::{self, Layout, Period, ShardName};
use runtime::db::{Statement, Value};

const PAYMENTS: usize = 50;
const FROM_MS: u64 = 1_793_491_200_000;
const NOW_MS: u64 = FROM_MS + 86_400_000;

struct World {
    d1: Connection,
    shards: RefCell<BTreeMap<ShardName, Connection>>,
    layouts: Vec<Layout>,
    /// The newest version of each payment that an object has told.
    told: RefCell<Vec<u64>>,
    cursor: RefCell<Option<Cursor>>,
    rng: Rng,
    /// The control: what was changed meanwhile is deleted, too.
    is_careless: bool,
    /// This shard does not answer.
    down: RefCell<Option<ShardName>>,
}

fn run(connection: &Connection, Statement { sql, values }: &Statement) -> usize {
    execute(connection, sql, bound(values)).unwrap()
}

fn statement(sql: &str, values: Vec<Value>) -> Statement {
    Statement::new(sql, values)
}

impl Stores for World {
    async fn texts(
        &self,
        place: Option<&ShardName>,
        sql: &str,
        values: Vec<Value>,
    ) -> Result<Vec<String>, String> {
        turn().await;
        assert_eq!(place, None, "only D1 is read");
        let mut statement = self.d1.prepare_cached(sql).unwrap();
        let rows = statement.query_map(bound(&values), |row| row.get(0)).unwrap();
        Ok(rows.map(Result::unwrap).collect())
    }

    async fn batch(&self, place: Option<&ShardName>, mut statements: Vec<Statement>) -> Result<(), String> {
        turn().await;
        if place.is_some() && place == self.down.borrow().as_ref() {
            return Err("it is down".to_owned());
        }
        if self.is_careless {
            for one in statements.iter_mut().filter(|one| one.sql.starts_with("DELETE")) {
                if let Some((before, after)) = one.sql.split_once("AND json_array(") {
                    let (_, after) = after.split_once("IN (SELECT value FROM json_each(?1))").unwrap();
                    one.sql = format!("{before}{after}");
                }
            }
        }
        match place {
            None => self.at_once(&self.d1, &statements),
            Some(name) => {
                self.at_once(self.shards.borrow().get(name).expect("it is written down"), &statements)
            }
        }
        // It is done, and who asked may never learn it.
        turn().await;
        Ok(())
    }

    async fn write_down(&self, shard: &ShardName) -> Result<(), String> {
        turn().await;
        self.shards.borrow_mut().entry(shard.clone()).or_insert_with(read_model);
        Ok(())
    }
}

impl World {
    fn new(seed: u64, is_careless: bool) -> Self {
        let layout = Layout {
            layout_id: 1,
            from_ms: FROM_MS,
            slots: 4,
            period: Period::Month,
            spread: BTreeMap::from([("account:1".to_owned(), 3)]),
            moved_since_ms: Some(0),
            moved_at_ms: Some(FROM_MS),
        };
        let world = Self {
            d1: read_model(),
            shards: RefCell::default(),
            layouts: vec![layout],
            told: RefCell::new(vec![0; PAYMENTS]),
            cursor: RefCell::new(None),
            rng: Rng::new(seed),
            is_careless,
            down: RefCell::new(None),
        };
        for number in 0..PAYMENTS {
            for _ in 0..=number % 4 {
                let version = world.tell_more(number);
                world.tell(&world.d1, number, version);
            }
        }
        world
    }

    fn at_once(&self, connection: &Connection, statements: &[Statement]) {
        connection.execute_batch("BEGIN").unwrap();
        for one in statements {
            run(connection, one);
        }
        connection.execute_batch("COMMIT").unwrap();
    }

    fn owner(number: usize) -> String {
        format!("account:{}", number % 5)
    }

    fn made_at_ms(number: usize) -> u64 {
        FROM_MS - 40 * 86_400_000 + (number as u64 / 2) * 86_400_000
    }

    fn home(&self, number: usize) -> ShardName {
        let (owner, object) = (Self::owner(number), format!("{number:064x}"));
        placement::home(&self.layouts, &owner, Self::made_at_ms(number), &object, NOW_MS).shard.unwrap()
    }

    fn tell_more(&self, number: usize) -> u64 {
        let version = self.told.borrow()[number] + 1;
        self.told.borrow_mut()[number] = version;
        version
    }

    /// A snapshot of a version, as the consumer writes it: an older one changes nothing. Each version has an audit record and a job of its own;
    /// of an even one the key is finished and stands in the payment's row.
    fn tell(&self, connection: &Connection, number: usize, version: u64) {
        let (id, object, owner) = (format!("pay_{number:03}"), format!("{number:064x}"), Self::owner(number));
        let is_finished = version.is_multiple_of(2);
        let newer = "NOT EXISTS (SELECT 1 FROM payments WHERE payment_id = ?1 AND version >= ?3)";
        let made_at_ms: Value = Self::made_at_ms(number).into();
        let values = || -> Vec<Value> {
            vec![
                id.as_str().into(),
                object.as_str().into(),
                version.into(),
                owner.as_str().into(),
                made_at_ms.clone(),
            ]
        };
        let mut statements = Vec::new();
        if is_finished {
            statements.push(statement(
                "DELETE FROM keys WHERE object = ?1 AND key_id = 1 AND version <= ?2",
                vec![object.as_str().into(), version.into()],
            ));
        } else {
            let sql = format!(
                "INSERT INTO keys (object, key_id, version, key_hash, owner, status, recovery_point, attempts, failures, in_doubt, flagged,
                    created_at_ms, updated_at_ms)
                 SELECT ?2, 1, ?3, 'h', ?4, 'open', 'v' || ?3, 1, 0, 0, 0, ?5, ?3 WHERE {newer}
                 ON CONFLICT (object, key_id) DO UPDATE SET version = excluded.version, recovery_point = excluded.recovery_point
                 WHERE excluded.version > keys.version"
            );
            statements.push(statement(&sql, values()));
        }
        let sql = format!(
            "INSERT INTO payments (payment_id, object, version, owner, status, amount_minor, captured_minor, refunded_minor, currency,
                provider, attempt, shown, created_at_ms, updated_at_ms, key_hash, created_data, done_jobs)
             SELECT ?1, ?2, ?3, ?4, 'v' || ?3, 1, 1, 0, 'usd', 'stripe', 1, '{{}}', ?5, ?3, ?6,
                CASE WHEN ?3 = 1 THEN '{{\"made\":1}}' END, json_object(?1 || '_done' || ?3, json_array('receipt', '', 1, 1)) WHERE {newer}
             ON CONFLICT (payment_id) DO UPDATE SET version = excluded.version, status = excluded.status, key_hash = excluded.key_hash,
                created_data = coalesce(payments.created_data, excluded.created_data),
                done_jobs = json_patch(coalesce(payments.done_jobs, '{{}}'), excluded.done_jobs), updated_at_ms = excluded.updated_at_ms
             WHERE excluded.version > payments.version"
        );
        let mut of_payment = values();
        of_payment.push(is_finished.then_some("h").into());
        statements.push(statement(&sql, of_payment));
        statements.push(statement(
            "INSERT INTO audit_records VALUES (?2, ?3 + 1, ?5, ?4, 'told', ?1, '{}') ON CONFLICT DO NOTHING",
            values(),
        ));
        statements.push(statement(
            "INSERT INTO jobs (job_id, kind, object, state, attempts, first_at_ms, history, staged_at_ms, updated_at_ms)
             SELECT ?1 || '_job', 'project', ?2, 'tried', ?3, ?3, '[]', ?5, ?3 WHERE ?4 IS NOT NULL
             ON CONFLICT (job_id) DO UPDATE SET attempts = excluded.attempts, updated_at_ms = excluded.updated_at_ms
             WHERE excluded.updated_at_ms > jobs.updated_at_ms",
            values(),
        ));
        statements.push(statement(
            "INSERT INTO refunds SELECT 'ref_' || ?1, ?1, ?3, 'v' || ?3, 1, 'usd', '', 'stripe', NULL, ?5, ?3, NULL WHERE ?2 IS NOT ?4
             ON CONFLICT (refund_id) DO UPDATE SET version = excluded.version, status = excluded.status WHERE excluded.version > refunds.version",
            values(),
        ));
        self.at_once(connection, &statements);
    }

    /// An object tells something, anew or once more, to its shard or late to D1.
    fn something_is_told(&self) {
        let number = self.rng.roll(PAYMENTS as u64) as usize;
        let version = match self.rng.roll(3) {
            0 => self.told.borrow()[number],
            1 => (self.told.borrow()[number] - 1).max(1),
            _ => self.tell_more(number),
        };
        if self.rng.roll(3) == 0 {
            return self.tell(&self.d1, number, version);
        }
        let home = self.home(number);
        let mut shards = self.shards.borrow_mut();
        self.tell(shards.entry(home).or_insert_with(read_model), number, version);
    }

    /// One mover, until a pass has found nothing.
    async fn moved(&self) {
        loop {
            let cursor = self.cursor.borrow().clone();
            let step = mover::step(self, &self.layouts, &self.layouts[0], cursor, NOW_MS).await.unwrap();
            self.cursor.replace(step.next.clone());
            if step.next.is_none() && mover::is_done(self, &self.layouts[0]).await.unwrap() {
                return;
            }
        }
    }

    /// Two movers, each killed now and then, while objects tell things; in the end nobody tells anything any more.
    fn play(&self, turns: usize) {
        let mut movers: [Option<Pin<Box<dyn Future<Output = ()> + '_>>>; 2] = [None, None];
        for number in 0..turns {
            let one = self.rng.roll(2) as usize;
            match self.rng.roll(12) {
                0 => movers[one] = None,
                1 | 2 if number < turns / 2 => self.something_is_told(),
                _ => {
                    let mover = movers[one].get_or_insert_with(|| Box::pin(self.moved()));
                    if mover.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
                        movers[one] = None;
                    }
                }
            }
        }
        drop(movers);
        let mut last = Box::pin(self.moved());
        while last.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {}
    }

    /// What is wrong in the end.
    fn wrong(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        let number = |connection: &Connection, sql: &str| -> u64 {
            connection.prepare_cached(sql).unwrap().query_row((), |row| row.get::<_, u32>(0)).unwrap().into()
        };
        let text = |connection: &Connection, sql: &str| -> String {
            connection
                .prepare_cached(sql)
                .unwrap()
                .query_row((), |row| row.get::<_, Option<String>>(0))
                .unwrap()
                .unwrap_or_default()
        };
        for table in ["payments", "keys", "audit_records", "jobs", "refunds"] {
            let left = number(&self.d1, &format!("SELECT count(*) FROM {table}"));
            if left > 0 {
                wrong.push(format!("{left} {table} are left in D1"));
            }
        }
        let shards = self.shards.borrow();
        let all: u64 = shards.values().map(|shard| number(shard, "SELECT count(*) FROM payments")).sum();
        if all != PAYMENTS as u64 {
            wrong.push(format!("{all} payments"));
        }
        for (payment, told) in self.told.borrow().iter().enumerate() {
            let Some(shard) = shards.get(&self.home(payment)) else {
                wrong.push(format!("{payment} has no shard"));
                continue;
            };
            let (id, object) = (format!("pay_{payment:03}"), format!("{payment:064x}"));
            let row = text(
                shard,
                &format!(
                    "SELECT status || ' ' || coalesce(created_data, '') || ' ' || (SELECT count(*) FROM json_each(done_jobs))
                     FROM payments WHERE payment_id = '{id}' UNION ALL SELECT 'none' LIMIT 1"
                ),
            );
            let key = text(
                shard,
                &format!(
                    "SELECT group_concat(status || ' ' || recovery_point) FROM key_list WHERE object = '{object}'"
                ),
            );
            let others = text(
                shard,
                &format!(
                    "SELECT (SELECT attempts FROM jobs WHERE job_id = '{id}_job') || ' ' || (SELECT status FROM refunds WHERE payment_id = '{id}')"
                ),
            );
            let audit = number(shard, &format!("SELECT count(*) FROM audit_trail WHERE object = '{object}'"));
            let wanted_key =
                if told.is_multiple_of(2) { "finished finished".to_owned() } else { format!("open v{told}") };
            if !row.starts_with(&format!("v{told} {{\"made\":1}} ")) {
                wrong.push(format!("{payment} was told as {told}, and is {row}"));
            }
            if key != wanted_key {
                wrong.push(format!("{payment} was told as {told}, and its key is {key}"));
            }
            if others != format!("{told} v{told}") {
                wrong.push(format!("{payment} was told as {told}, and its job and refund are {others}"));
            }
            // With the one that stands in the payment's row.
            if audit != told + 1 {
                wrong.push(format!("{payment} has {audit} audit records of {}", told + 1));
            }
        }
        wrong
    }
}

#[test]
fn nothing_is_lost_and_nothing_is_there_twice_wherever_a_move_is_broken_off() {
    for seed in 1..=24 {
        let world = World::new(seed, false);
        world.play(1_200);
        assert_eq!(world.wrong(), Vec::<String>::new(), "seed {seed}");
    }
}

#[test]
fn control_without_looking_whether_a_row_has_changed_something_is_lost() {
    let is_found = |seed| {
        let world = World::new(seed, true);
        world.play(1_200);
        !world.wrong().is_empty()
    };
    assert!((1..=60).any(is_found));
}

#[test]
fn a_shard_that_is_down_holds_up_no_other_and_takes_its_own_later() {
    let world = World::new(7, false);
    let down = world.home(0);
    world.down.replace(Some(down.clone()));
    let block = |future: Pin<Box<dyn Future<Output = mover::Step> + '_>>| {
        let mut future = future;
        loop {
            if let Poll::Ready(step) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                return step;
            }
        }
    };
    let mut cursor = None;
    let mut failed = 0;
    loop {
        let step = block(Box::pin(async {
            mover::step(&world, &world.layouts, &world.layouts[0], cursor.clone(), NOW_MS).await.unwrap()
        }));
        failed += step.failed.len();
        cursor = step.next;
        if cursor.is_none() {
            break;
        }
    }
    assert!(failed > 0);
    let left: u32 = world.d1.query_row("SELECT count(*) FROM payments", (), |row| row.get(0)).unwrap();
    let of_it = (0..PAYMENTS).filter(|number| world.home(*number) == down).count();
    assert_eq!(left as usize, of_it);
    world.down.replace(None);
    world.play(400);
    assert_eq!(world.wrong(), Vec::<String>::new());
}
