//! The bank's acknowledgements over several places, on databases of the tests' own: runs that are killed at every step and two at once, a mover beside
//! them, shards that are down for a while and shards at rest. In the end each line is booked as if all were in D1.

#[cfg(test)]
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Waker};

use rusqlite::Connection;
use serde::de::DeserializeOwned;

use super::ack_lines::{self, File, Outcome, Places, RunLimits};
use super::late::tests::read_model;
use super::settlement_file::{Acknowledgement, read_acknowledgement};
use super::shards::settled_payments::{block, json_rows, transaction};
use super::simulation::{Rng, execute, turn};
use messages::placement::ShardName;
use runtime::db::Statement;

/// What is left out, to see that the tests would notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protection {
    Real,
    /// What a shard that does not answer has is taken to be nowhere.
    SilentIsEmpty,
    /// A search forgets behind which shards it went on though they did not answer.
    MissedAreForgotten,
    /// Shards at rest are not asked.
    RestingAreNotAsked,
    /// The mover deletes a line in D1 before it writes it into its shard.
    MoverDeletesFirst,
}

const SHARDS: usize = 12;
const NAME: &str = "a.csv";
const CONTENT: &str = "0123456789abcdef";

struct World {
    d1: Connection,
    shards: RefCell<BTreeMap<String, Connection>>,
    down: RefCell<BTreeSet<String>>,
    now_ms: Cell<u64>,
    /// Of the run that asks most.
    asked_most: Cell<usize>,
    protection: Protection,
    rng: Rng,
}

fn shard(number: usize) -> String {
    // Periods of all lengths, in no order of their names.
    let period = ["2026-11", "2026-11-25", "2026-10", "2026-11-25T07"][number % 4];
    format!("g{}-{period}-{number:03}", 1 + number % 3)
}

fn write(place: &Connection, line_id: &str) {
    let sql = "INSERT INTO settlement_lines (line_id, file, kind, provider, amount_minor, currency, at_ms)
         VALUES (?1, 'f', 'capture', 'stripe', 9, 'usd', 1) ON CONFLICT DO NOTHING";
    execute(place, sql, [line_id]).unwrap();
}

impl World {
    fn new(seed: u64, protection: Protection) -> Self {
        let world = Self {
            d1: read_model(),
            shards: RefCell::default(),
            down: RefCell::default(),
            now_ms: Cell::new(1),
            asked_most: Cell::new(0),
            protection,
            rng: Rng::new(seed),
        };
        for number in 0..SHARDS {
            world.written_down(&shard(number), number % 5 == 0);
        }
        world
    }

    fn written_down(&self, name: &str, is_at_rest: bool) {
        let sql = "INSERT INTO shards (name, made_at_ms, rests_since_ms) VALUES (?1, 1, ?2)";
        execute(&self.d1, sql, (name, is_at_rest.then_some(1))).unwrap();
    }

    fn in_shard<T>(&self, name: &str, work: impl FnOnce(&Connection) -> T) -> T {
        work(self.shards.borrow_mut().entry(name.to_owned()).or_insert_with(read_model))
    }

    /// Lines of all kinds, and how each must be booked: in D1, in shards that are named, in shards of a release before, nowhere, of another amount, and
    /// one twice.
    fn fill(&self) -> (Vec<Acknowledgement>, Vec<&'static str>) {
        let (mut rows, mut booked) = (Vec::new(), Vec::new());
        for number in 0..40 {
            let line_id = format!("pay_{number}:capture");
            let place = shard(self.rng.roll(SHARDS as u64) as usize);
            let (reference, amount, outcome) = match number % 8 {
                // These are moved, some of them while they are looked for.
                0 | 1 => {
                    write(&self.d1, &line_id);
                    (line_id, 9, "booked")
                }
                2 => (line_id, 9, "unknown"),
                3 => (format!("{line_id}.{place}"), 9, "unknown"),
                4 => (format!("{line_id}.g9-2026-11-000"), 9, "unknown"),
                kind => {
                    self.in_shard(&place, |place| write(place, &line_id));
                    let reference = if kind == 5 { line_id } else { format!("{line_id}.{place}") };
                    let is_other = kind == 7 && number % 3 == 0;
                    (reference, if is_other { 8 } else { 9 }, if is_other { "differs" } else { "booked" })
                }
            };
            rows.push(format!("{reference},settled,{amount},usd\n"));
            booked.push(outcome);
        }
        rows.push(rows[0].clone());
        booked.push("duplicate");
        let text =
            format!("line_id,outcome,amount_minor,currency\n{}trailer,{}\n", rows.concat(), rows.len());
        (read_acknowledgement(&text).unwrap(), booked)
    }

    /// Moves a line of D1's into a shard, if it has one.
    async fn moves(&self) {
        turn().await;
        let rows =
            json_rows(&self.d1, &Statement::new("SELECT line_id FROM settlement_lines LIMIT 1", vec![]));
        let Some(line_id) = rows.first().and_then(|row| row["line_id"].as_str()) else { return };
        let to = shard(self.rng.roll(SHARDS as u64) as usize);
        let leaves =
            || execute(&self.d1, "DELETE FROM settlement_lines WHERE line_id = ?1", [line_id]).unwrap();
        if self.protection == Protection::MoverDeletesFirst {
            leaves();
            turn().await;
        }
        // As in truth: it goes on until its shard has answered.
        self.in_shard(&to, |place| write(place, line_id));
        turn().await;
        leaves();
        turn().await;
    }

    async fn runs(&self, lines: &[Acknowledgement], requests: usize) -> Outcome {
        let mut limits = RunLimits { requests, until_ms: u64::MAX };
        let file = File { name: NAME, content: CONTENT, lines };
        let outcome = ack_lines::book(self, &mut limits, file).await.unwrap();
        self.asked_most.set(self.asked_most.get().max(requests - limits.requests));
        outcome
    }

    /// Two runs and a mover, each killed at any step; then all is up.
    fn play(&self, lines: &[Acknowledgement]) {
        let mut all: [Option<Pin<Box<dyn Future<Output = ()> + '_>>>; 3] = [None, None, None];
        for _ in 0..600 {
            let one = usize::try_from(self.rng.roll(3)).unwrap();
            match self.rng.roll(24) {
                0 => all[one] = None,
                1 => {
                    let down = (0..SHARDS).filter(|_| self.rng.roll(3) == 0).map(shard).collect();
                    self.down.replace(down);
                }
                _ => {
                    self.now_ms.set(self.now_ms.get() + 1);
                    let work = all[one].get_or_insert_with(|| match one {
                        2 => Box::pin(self.moves()),
                        _ => {
                            let requests = 1 + self.rng.roll(9) as usize;
                            Box::pin(async move { drop(self.runs(lines, requests).await) })
                        }
                    });
                    if work.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
                        all[one] = None;
                    }
                }
            }
        }
        drop(all);
        self.down.take();
    }

    /// How the lines of the file are booked, in their order.
    fn booked(&self) -> Vec<String> {
        let sql = "SELECT booked FROM settlement_answers ORDER BY line_number";
        let rows = json_rows(&self.d1, &Statement::new(sql, vec![]));
        rows.iter().map(|row| row["booked"].as_str().unwrap().to_owned()).collect()
    }
}

impl Places for World {
    fn now_ms(&self) -> u64 {
        self.now_ms.get()
    }

    fn are_many(&self) -> bool {
        true
    }

    async fn rows<T: DeserializeOwned>(&self, mut statement: Statement) -> worker::Result<Vec<T>> {
        turn().await;
        if self.protection == Protection::RestingAreNotAsked {
            let all = "INDEXED BY shards_by_time WHERE";
            statement.sql = statement.sql.replace(all, "WHERE rests_since_ms IS NULL AND");
        }
        let rows = json_rows(&self.d1, &statement);
        Ok(rows.into_iter().map(|row| serde_json::from_value(row).unwrap()).collect())
    }

    async fn batch(&self, mut statements: Vec<Statement>) -> worker::Result<Vec<usize>> {
        turn().await;
        if self.protection == Protection::MissedAreForgotten {
            for one in &mut statements {
                one.sql = one.sql.replace("missed = ?4", "missed = iif(?4 = '', '', '[]')");
            }
        }
        let changed = transaction(&self.d1, &statements);
        // It is done, and who asked may never learn it.
        turn().await;
        Ok(changed)
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        questions: BTreeMap<String, Rc<Statement>>,
    ) -> worker::Result<BTreeMap<String, Vec<T>>> {
        let mut answers = BTreeMap::new();
        for (name, question) in questions {
            turn().await;
            assert!(ShardName::parse(&name).is_some() && !name.starts_with("g9-"), "{name} is nowhere");
            if self.down.borrow().contains(&name) {
                if self.protection == Protection::SilentIsEmpty {
                    answers.insert(name, Vec::new());
                }
                continue;
            }
            // One that was never filled has no table to make here.
            let rows =
                self.shards.borrow().get(&name).map(|place| json_rows(place, &question)).unwrap_or_default();
            answers.insert(name, rows.into_iter().map(|row| serde_json::from_value(row).unwrap()).collect());
        }
        Ok(answers)
    }
}

/// How the lines are booked in the end, and how they must be.
fn played(seed: u64, protection: Protection) -> (Vec<String>, Vec<&'static str>) {
    let world = World::new(seed, protection);
    let (lines, expected) = world.fill();
    world.play(&lines);
    let mut runs = 0;
    while block(world.runs(&lines, 9)).left > 0 {
        runs += 1;
        assert!(runs < 20, "it comes to no end");
    }
    assert!(world.asked_most.get() <= 9);
    let unfinished = json_rows(&world.d1, &Statement::new("SELECT name FROM answers_unfinished", vec![]));
    assert!(unfinished.is_empty(), "{unfinished:?}");
    // Once more: nothing changes.
    let booked = world.booked();
    block(world.runs(&lines, 9));
    assert_eq!(world.booked(), booked);
    (booked, expected)
}

#[test]
fn each_line_is_booked_by_the_place_that_has_ours_wherever_runs_are_broken_off() {
    for seed in 1..=25 {
        let (booked, expected) = played(seed, Protection::Real);
        assert_eq!(booked, expected, "seed {seed}");
    }
}

fn is_found(protection: Protection) -> bool {
    (1..=200).any(|seed| {
        let (booked, expected) = played(seed, protection);
        booked != expected
    })
}

#[test]
fn control_a_shard_that_does_not_answer_is_not_one_without_the_line() {
    assert!(is_found(Protection::SilentIsEmpty));
}

#[test]
fn control_a_search_that_forgets_whom_it_has_missed_takes_a_line_for_unknown() {
    assert!(is_found(Protection::MissedAreForgotten));
}

#[test]
fn control_a_shard_at_rest_still_has_its_lines() {
    assert!(is_found(Protection::RestingAreNotAsked));
}

#[test]
fn control_a_mover_that_deletes_first_hides_a_line() {
    assert!(is_found(Protection::MoverDeletesFirst));
}

#[test]
fn a_shard_that_is_down_holds_up_its_own_lines_alone() {
    let world = World::new(7, Protection::Real);
    let (lines, expected) = world.fill();
    let down = shard(1);
    world.down.borrow_mut().insert(down.clone());
    let outcome = block(world.runs(&lines, 1_000));
    assert_eq!(outcome.silent, [down.as_str()]);
    let waits: Vec<_> = lines.iter().filter(|line| !world.is_booked(line)).collect();
    assert_eq!(outcome.left, waits.len() as u64);
    // The others may be there.
    let of_others = |line: &&Acknowledgement| {
        let place = line.place.as_ref().map(ShardName::to_string);
        place.is_some_and(|place| place != down && !place.starts_with("g9-"))
    };
    assert!(!waits.iter().any(of_others), "{waits:?}");
    assert!(waits.iter().any(|line| line.place.is_some()) && waits.len() < lines.len() / 2);
    world.down.take();
    assert_eq!(block(world.runs(&lines, 1_000)).left, 0);
    assert_eq!(world.booked(), expected);
}

impl World {
    fn is_booked(&self, line: &Acknowledgement) -> bool {
        let sql = "SELECT 1 AS is_booked FROM settlement_answers WHERE line_number = ?1";
        !json_rows(&self.d1, &Statement::new(sql, vec![line.line_number.into()])).is_empty()
    }
}

/// With 480 shards a day for 90 days: a file asks the shards that its lines name; and for a line of a release before it looks through all of them, in
/// runs that are bounded.
#[test]
fn what_a_file_asks_is_bounded_by_its_lines_however_many_shards_there_are() {
    let world = World::new(1, Protection::Real);
    let day = |day: u64| payments::timestamp(1_795_000_000_000 - day * 86_400_000)[..10].to_owned();
    world.d1.execute_batch("BEGIN").unwrap();
    for number in 0..43_200 {
        world.written_down(&format!("g4-{}-{:03}", day(number / 480), number % 480), false);
    }
    world.d1.execute_batch("COMMIT").unwrap();
    let mut rows = String::new();
    for number in 0..600 {
        let place = format!("g4-{}-{:03}", day(0), number % 30);
        let line_id = format!("pay_new_{number}:capture");
        world.in_shard(&place, |place| write(place, &line_id));
        rows.push_str(&format!("{line_id}.{place},settled,9,usd\n"));
    }
    let file = |rows: &str| {
        let text = format!("line_id,outcome,amount_minor,currency\n{rows}trailer,{}\n", rows.lines().count());
        read_acknowledgement(&text).unwrap()
    };
    let named = block(world.runs(&file(&rows), 1_000));
    assert_eq!((named.left, named.counts["booked"]), (0, 600));
    assert_eq!(world.asked_most.get(), 30);

    world.d1.execute_batch("DELETE FROM settlement_answers").unwrap();
    let oldest = format!("g4-{}-479", day(89));
    world.in_shard(&oldest, |place| write(place, "pay_old:capture"));
    let old = file("pay_old:capture,settled,9,usd\n");
    let mut runs = 1;
    while block(world.runs(&old, 1_000)).left > 0 {
        runs += 1;
    }
    assert!((43..=44).contains(&runs), "{runs}");
    assert_eq!(world.asked_most.get(), 1_000);
    assert_eq!(world.booked(), ["booked"]);
}
