//! Each movement of money stands in one settlement file, whatever becomes of the runs that close the days: they break off anywhere, several run at
//! once, and the read model learns of movements late. The SQL and the plan of the slices are the real ones, on the read model's own tables.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test: a panic is its verdict"
)]

mod settlement;

use std::collections::{BTreeMap, BTreeSet};

use paid_once_desk::tasks::settlement_closing::{self, Closing, Probed};
use paid_once_desk::tasks::settlement_file::{Line, Writer, days_due};
use paid_once_desk::tasks::settlement_parts::{Manifest, Part, part_name};
use proptest::prelude::*;
use runtime::db::Statement;

use settlement::{DAY_MS, Kind, Model, Movement, OPENS_MS};

const MINUTE_MS: u64 = 60_000;
const HOUR_MS: u64 = 60 * MINUTE_MS;

/// What happens, one after the other.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// Money moves, and the read model learns of it so much later.
    Moved { kind: Kind, late_ms: u64 },
    /// Time goes on.
    Passes { ms: u64 },
    /// A run makes so many transactions, of so many rows at most, and breaks off.
    Run { transactions: u32, most: u32 },
    /// A run has looked, and makes its slice only after another one has made so many.
    Overtaken { most: u32, by: u32 },
}

/// How slices are made: as they are, or with a protection off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protection {
    Real,
    /// The cursor is moved in a transaction of its own, before the lines are made, and the run may break off between the two.
    CursorApart,
    /// What came late is not noted.
    NothingNoted,
}

struct Shop {
    model: Model,
    protection: Protection,
    now_ms: u64,
    all: Vec<Movement>,
    /// What moved and is not known yet, by when it will be.
    on_the_way: BTreeMap<(u64, usize), Movement>,
    /// The lines of each file when it was closed.
    closed: BTreeMap<String, BTreeSet<String>>,
    transactions: u32,
}

impl Shop {
    fn new(protection: Protection) -> Self {
        let model = Model::new();
        if protection == Protection::NothingNoted {
            model.execute("DROP TRIGGER audit_records_late; DROP TRIGGER payments_late");
        }
        let mut shop = Self {
            model,
            protection,
            now_ms: OPENS_MS + 3 * HOUR_MS,
            all: Vec::new(),
            on_the_way: BTreeMap::new(),
            closed: BTreeMap::new(),
            transactions: 0,
        };
        // Files were written before this one began.
        shop.drain();
        shop
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Moved { kind, late_ms } => {
                let number = self.all.len();
                let movement = Movement::new(number, kind, self.now_ms);
                self.on_the_way.insert((self.now_ms + late_ms, number), movement.clone());
                self.all.push(movement);
                self.learn();
            }
            Event::Passes { ms } => {
                self.now_ms += ms;
                self.learn();
            }
            Event::Run { transactions, most } => {
                for _ in 0..transactions {
                    if !self.step(most, 0) {
                        break;
                    }
                }
            }
            Event::Overtaken { most, by } => drop(self.step(most, by)),
        }
    }

    /// The read model learns of what is on its way, each at its time.
    fn learn(&mut self) {
        while let Some(entry) = self.on_the_way.first_entry().filter(|entry| entry.key().0 <= self.now_ms) {
            self.model.learn(entry.key().0, &entry.remove());
        }
        self.model.is_now(self.now_ms);
    }

    /// One transaction of a run, as `settlement_job` makes it; before it others make so many. Gives whether there was something to do.
    fn step(&mut self, most: u32, others: u32) -> bool {
        let newest = self.model.text("SELECT max(day) FROM settlement_files");
        let Some(day) = days_due(newest.as_deref(), self.now_ms).into_iter().next() else { return false };
        let opened = settlement_closing::open(&day, 3);
        self.model.transaction(&[opened]);
        let Some(closing) = self.model.closing(&day.file_name()) else { return false };
        let probed = (!closing.is_through()).then(|| self.model.probed(closing.probe(most)));
        for _ in 0..others {
            self.step(most, 0);
        }
        self.commit(&closing, probed, most);
        self.note_closed(&day.file_name());
        true
    }

    /// What a run does that has seen this.
    fn commit(&mut self, seen: &Closing, probed: Option<Probed>, most: u32) {
        self.transactions += 1;
        let statements = |seen: &Closing| match probed {
            Some(probed) => seen.slice(probed).1.to_vec(),
            None => seen.late(most, self.now_ms).to_vec(),
        };
        match self.protection {
            Protection::Real | Protection::NothingNoted => self.model.transaction(&statements(seen)),
            Protection::CursorApart => {
                let (lines, cursor) = (statements(&at(seen, seen.version + 1)), statements(seen));
                self.model.transaction(&cursor[cursor.len() - 1..]);
                if !self.transactions.is_multiple_of(3) {
                    self.model.transaction(&lines[..lines.len() - 1]);
                }
            }
        }
    }

    /// What a file holds when it is closed.
    fn note_closed(&mut self, name: &str) {
        if self.model.is_closed(name) && !self.closed.contains_key(name) {
            let lines = self.model.lines(name).into_iter().map(|line| line.line_id).collect();
            self.closed.insert(name.to_owned(), lines);
        }
    }

    fn drain(&mut self) {
        self.learn();
        for _ in 0..100_000 {
            if !self.step(50, 0) {
                return;
            }
        }
        panic!("it never ends");
    }

    /// Lets all that is on its way arrive, closes the days after it, and says what is wrong with the files.
    fn complaints(&mut self) -> Vec<String> {
        let last_ms = self.on_the_way.last_key_value().map_or(0, |(key, _)| key.0).max(self.now_ms);
        self.drain();
        while self.now_ms < last_ms + 2 * DAY_MS {
            self.now_ms += DAY_MS / 2;
            self.drain();
        }
        let mut found = Vec::new();
        let mut stands: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (name, lines) in &self.closed {
            let now: Vec<Line> = self.model.lines(name);
            if now.iter().map(|line| line.line_id.clone()).collect::<BTreeSet<_>>() != *lines {
                found.push(format!("{name} was changed after it was closed"));
            }
            found.extend(self.wrong_sums(name, &now));
            for line in now {
                stands.entry(line.line_id).or_default().push(name.clone());
            }
        }
        for movement in &self.all {
            match stands.remove(&movement.line_id).as_deref() {
                Some([file]) if *file < movement.own_file() => {
                    found.push(format!("{} is in {file}", movement.line_id))
                }
                Some([_]) => {}
                other => found.push(format!("{} stands in {other:?}", movement.line_id)),
            }
        }
        found.extend(stands.into_keys().map(|line| format!("{line} never moved")));
        found
    }

    /// The sums of the parts are those of the movements.
    fn wrong_sums(&self, name: &str, lines: &[Line]) -> Option<String> {
        let mut parts = Vec::new();
        for (number, lines) in (1..).zip(lines.chunks(3)) {
            let mut writer = Writer::of("");
            lines.iter().for_each(|line| writer.push(line).unwrap());
            let file = writer.finish();
            let lines = u64::try_from(file.lines).unwrap();
            parts.push(Part {
                name: part_name(name, number),
                lines,
                sha256: file.sha256,
                totals: file.totals,
            });
        }
        let manifest = Manifest::of("a day", parts).unwrap();
        let sum: u64 = manifest.totals.values().flat_map(BTreeMap::values).sum();
        let ids: BTreeSet<&str> = lines.iter().map(|line| line.line_id.as_str()).collect();
        let moved = self.all.iter().filter(|movement| ids.contains(movement.line_id.as_str()));
        let must: u64 = moved.map(|movement| movement.amount_minor).sum();
        (sum != must || manifest.lines != u64::try_from(lines.len()).unwrap())
            .then(|| format!("{name} has {sum}, not {must}"))
    }
}

/// As if the run had seen this version.
fn at(seen: &Closing, version: u64) -> Closing {
    Closing { version, ..seen.clone() }
}

fn event() -> impl Strategy<Value = Event> {
    let late = prop_oneof![
        6 => Just(2_000_u64),
        1 => Just(30 * MINUTE_MS),
        2 => Just(61 * MINUTE_MS),
        2 => Just(3 * HOUR_MS),
        2 => Just(30 * HOUR_MS),
        1 => Just(20 * DAY_MS),
    ];
    let kind = prop::sample::select(vec![Kind::FirstCapture, Kind::Capture, Kind::Refund]);
    prop_oneof![
        8 => (kind, late).prop_map(|(kind, late_ms)| Event::Moved { kind, late_ms }),
        4 => prop_oneof![Just(0_u64), Just(1), Just(20 * MINUTE_MS), Just(HOUR_MS), Just(9 * HOUR_MS)]
            .prop_map(|ms| Event::Passes { ms }),
        4 => (1..6_u32, 1..4_u32).prop_map(|(transactions, most)| Event::Run { transactions, most }),
        2 => (1..4_u32, 1..4_u32).prop_map(|(most, by)| Event::Overtaken { most, by }),
    ]
}

/// Some days of a shop whose runs are broken off all the time.
fn a_hard_week() -> Vec<Event> {
    let mut all = Vec::new();
    for n in 0..400_u64 {
        let kind = [Kind::FirstCapture, Kind::Capture, Kind::Refund][usize::try_from(n % 3).unwrap()];
        let late_ms = [2_000, 2_000, 2 * HOUR_MS, 26 * HOUR_MS][usize::try_from(n % 4).unwrap()];
        all.push(Event::Moved { kind, late_ms });
        all.push(Event::Passes { ms: 25 * MINUTE_MS });
        all.push(match n % 3 {
            0 => Event::Run { transactions: 2, most: 2 },
            1 => Event::Overtaken { most: 2, by: 1 },
            _ => Event::Overtaken { most: 1, by: 2 },
        });
    }
    all
}

fn played(protection: Protection, events: &[Event]) -> Vec<String> {
    let mut shop = Shop::new(protection);
    events.iter().for_each(|event| shop.happen(*event));
    shop.complaints()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn each_movement_stands_in_one_file(events in prop::collection::vec(event(), 1..120)) {
        prop_assert_eq!(played(Protection::Real, &events), Vec::<String>::new());
    }
}

#[test]
fn so_it_does_in_a_hard_week_and_in_none_with_a_protection_off() {
    let week = a_hard_week();
    assert_eq!(played(Protection::Real, &week), Vec::<String>::new());
    for off in [Protection::CursorApart, Protection::NothingNoted] {
        let found = played(off, &week);
        assert!(found.iter().any(|complaint| complaint.ends_with("stands in None")), "{off:?}: {found:?}");
    }
}

#[test]
fn a_run_that_has_slept_changes_no_file_that_was_closed_meanwhile() {
    let complaints = |is_guarded: bool| {
        let mut shop = Shop::new(Protection::Real);
        for late_ms in [0, 0, 30 * HOUR_MS] {
            shop.happen(Event::Moved { kind: Kind::Capture, late_ms });
        }
        shop.happen(Event::Passes { ms: DAY_MS });
        assert!(shop.step(1, 0));
        let name = shop.all[0].own_file();
        let seen = shop.model.closing(&name).unwrap();
        let (_, asleep) = seen.slice(Probed { until_ms: None });
        shop.drain();
        shop.happen(Event::Passes { ms: 10 * HOUR_MS });
        let guard = "AND NOT EXISTS (SELECT 1 FROM settlement_files WHERE name = ?1)";
        let unguarded =
            at(&seen, shop.model.closing(&name).unwrap().version).slice(Probed { until_ms: None }).1;
        assert!(unguarded[0].sql.contains(guard));
        let unguarded = unguarded.map(|one| Statement::new(one.sql.replace(guard, ""), one.values));
        shop.model.transaction(if is_guarded { &asleep } else { &unguarded });
        shop.complaints()
    };
    assert_eq!(complaints(true), Vec::<String>::new());
    let found = complaints(false);
    assert!(
        found.iter().any(|complaint| complaint.ends_with("was changed after it was closed")),
        "{found:?}"
    );
}

#[test]
fn the_release_before_may_close_a_day_whose_closing_is_under_way() {
    let mut shop = Shop::new(Protection::Real);
    for _ in 0..6 {
        shop.happen(Event::Moved { kind: Kind::Refund, late_ms: 0 });
        shop.happen(Event::Passes { ms: HOUR_MS });
    }
    shop.happen(Event::Moved { kind: Kind::FirstCapture, late_ms: 40 * HOUR_MS });
    shop.happen(Event::Passes { ms: 20 * HOUR_MS });
    let day =
        days_due(shop.model.text("SELECT max(day) FROM settlement_files").as_deref(), shop.now_ms).remove(0);
    assert!(shop.step(2, 0));
    let under_way = shop.model.closing(&day.file_name()).unwrap();
    assert!(!under_way.is_through());
    // It makes all lines that are not there, and the file's row, in one transaction.
    shop.model.closes_as_before(&day, shop.now_ms);
    shop.note_closed(&day.file_name());
    let before = shop.model.lines(&day.file_name()).len();
    assert_eq!(before, 6);
    // A run of ours that had looked before changes nothing any more, and takes nothing away.
    let probed = Probed { until_ms: None };
    shop.model.transaction(&under_way.slice(probed).1);
    let through = Closing { through_ms: under_way.ends_ms, version: under_way.version + 1, ..under_way };
    shop.model.transaction(&through.late(50, shop.now_ms));
    assert_eq!(shop.model.lines(&day.file_name()).len(), before);
    assert_eq!(shop.complaints(), Vec::<String>::new());
}

/// The only break, if there is one: what it is about.
fn told(shop: &Shop) -> Option<String> {
    shop.model.text("SELECT max(ours || ', ' || theirs || ', ' || note) FROM breaks")
}

#[test]
fn what_comes_after_35_days_stands_in_a_file_where_all_files_since_then_are_known() {
    let mut shop = Shop::new(Protection::Real);
    shop.happen(Event::Moved { kind: Kind::Refund, late_ms: 40 * DAY_MS });
    shop.happen(Event::Moved { kind: Kind::Capture, late_ms: 33 * DAY_MS });
    assert_eq!(shop.complaints(), Vec::<String>::new());
    assert_eq!(told(&shop), None);
    assert_eq!(shop.model.count("SELECT count(*) FROM settlement_late"), 0);
}

#[test]
fn what_comes_so_late_that_no_file_is_known_is_a_break() {
    let mut shop = Shop::new(Protection::Real);
    // Known now, and moved before the first file that is known here begins.
    let ended_ms = shop.now_ms;
    for (number, kind) in [(1_000, Kind::Refund), (1_001, Kind::FirstCapture)] {
        shop.model.learn(ended_ms, &Movement::new(number, kind, ended_ms - 50 * DAY_MS));
    }
    // Another has its line already: it is not told of.
    let known = Movement::new(1_002, Kind::Capture, ended_ms - 50 * DAY_MS);
    shop.model.execute(&format!(
        "INSERT INTO settlement_lines VALUES ('{}', 'settlement/old.csv', 'capture', 'stripe', 'pi', 1, 'usd', {})",
        known.line_id, known.at_ms
    ));
    shop.model.learn(ended_ms, &known);
    assert_eq!(shop.complaints(), Vec::<String>::new());
    let told = told(&shop).unwrap();
    assert!(told.starts_with("2 movements, in no settlement file, moved from 2026-"), "{told}");
    assert!(told.contains("settle by hand what is in none"), "{told}");
    assert_eq!(shop.model.count("SELECT count(*) FROM settlement_late"), 0);
}
