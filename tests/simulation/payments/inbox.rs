//! Adyen's way into the objects: what it tells is stored and acknowledged, and worked on afterwards, by the statements of the
//! Worker's own inbox on a SQLite of the tests'.
//!
//! The database does not answer; whoever works dies before or after a try; among the events is one that nobody can place.
//! The random numbers are those of the webhooks.

use std::cell::Cell;
use std::collections::BTreeMap;

use messages::inbox::{
    Attempt, CLAIM, CLAIM_DUE, Claimed, DUE_MAX, END, Entry, Next, STORE, TELLERS, TELLERS_MAX, TURN, Teller,
    Turns, stored,
};
use once::id::ObjectId;
use once_object::storage::{SqlValue, Storage};
use paid_once::webhooks::adyen;
use payments::payment::id::PaymentId;
use serde::Deserialize;
use serde_json::{Value, json};

use super::world::{Disabled, Event, World};
use crate::disk::Sqlite;
use crate::faults::MINUTE;

/// How often the clock strikes.
const CLOCK_MS: u64 = 5 * MINUTE;
/// After how long at most an event is tried that was stored, whatever waits beside it: the clock strikes twice.
const FIRST_TRY_WITHIN_MS: u64 = 2 * CLOCK_MS;

thread_local! {
    /// An empty one, of a history that is over: to make it takes longer than all that most histories ask of it.
    static SPARE: Cell<Option<Sqlite>> = const { Cell::new(None) };
}

/// The inbox, and what is known of its events here.
pub(crate) struct Inbox {
    database: Option<Sqlite>,
    /// The numbers of the events, by their ids.
    numbers: BTreeMap<String, usize>,
    /// When the events were stored that were not tried yet, by their ids.
    untried: BTreeMap<String, u64>,
    /// The object of each key of which the last try found its call on its way.
    busy: BTreeMap<String, usize>,
    /// When the clock works on what is due next, if it does.
    clock_at_ms: Option<u64>,
    poisons: u32,
}

fn integer(number: u64) -> SqlValue {
    SqlValue::Integer(i64::try_from(number).unwrap_or(i64::MAX))
}

fn text(text: &str) -> SqlValue {
    SqlValue::Text(text.to_owned())
}

impl Inbox {
    pub(crate) const fn new() -> Self {
        Self {
            database: None,
            numbers: BTreeMap::new(),
            untried: BTreeMap::new(),
            busy: BTreeMap::new(),
            clock_at_ms: None,
            poisons: 0,
        }
    }

    /// As the migrations make it.
    fn database(&mut self) -> Sqlite {
        let made = || {
            let database = Sqlite::new();
            let tables = include_str!("../../../migrations/0007_webhook_inbox.sql");
            database.connection.execute_batch(tables).expect("the tables of the inbox");
            let later = [
                include_str!("../../../migrations/0038_turns.sql"),
                include_str!("../../../migrations/0039_turns_that_are_kept.sql"),
            ];
            let of_all = later.into_iter().flat_map(|all| all.split(';'));
            for statement in of_all.filter(|statement| statement.contains("inbox")) {
                database.connection.execute_batch(statement).expect("what has come to them");
            }
            database
        };
        self.database.get_or_insert_with(|| SPARE.take().unwrap_or_else(made)).clone()
    }

    fn claim(&mut self, sql: &str, bindings: Vec<SqlValue>) -> Vec<Claimed> {
        let mut claimed: Vec<Claimed> = self.database().query(sql, bindings).expect("what is claimed");
        claimed.sort_by_key(|claimed| claimed.told_at_ms);
        claimed
    }

    /// As a run of the clock does it: at most `most` of what is due, by turns.
    fn claim_due(&mut self, now_ms: u64, most: u32) -> Vec<Claimed> {
        let bindings = vec![integer(now_ms), integer(TELLERS_MAX.into())];
        let tellers: Vec<Teller> = self.database().query(TELLERS, bindings).expect("whose turn it is");
        let turns = Turns::of(&tellers);
        if let Some(last) = turns.last {
            self.database().exec(TURN, vec![text(&last)]).expect("whose turn was the last one");
        }
        let due =
            |due: String| self.claim(CLAIM_DUE, vec![integer(now_ms), integer(most.into()), text(&due)]);
        turns.due.map(due).unwrap_or_default()
    }

    /// When something is due.
    fn due_at_ms(&mut self) -> Option<u64> {
        #[derive(Deserialize)]
        struct Due {
            at_ms: Option<u64>,
        }
        let sql = "SELECT min(next_at_ms) AS at_ms FROM inbox WHERE state = 'waiting'";
        let due: Vec<Due> = self.database().query(sql, Vec::new()).expect("when it is due");
        due.first().and_then(|due| due.at_ms)
    }

    /// Whether an event was stored, as it is, and no try of it has begun.
    fn is_untried(&mut self, event_id: &str) -> bool {
        #[derive(Deserialize)]
        struct Waits {
            attempts: u32,
        }
        let sql = "SELECT attempts FROM inbox WHERE event_id = ? AND state = 'waiting'";
        let waits: Vec<Waits> = self.database().query(sql, vec![text(event_id)]).expect("whether it waits");
        waits.first().is_some_and(|waits| waits.attempts == 0)
    }

    /// Whether an event about the object waits for a call that is on its way.
    pub(crate) fn waits_for(&self, object: usize) -> bool {
        self.busy.values().any(|busy| *busy == object)
    }
}

/// An item about a payment that was never made.
fn poison(number: u32) -> Value {
    let nobody = ObjectId::from_bytes([0xEE; 32]);
    json!({
        "amount": { "value": 1, "currency": "USD" }, "eventCode": "CAPTURE",
        "merchantReference": PaymentId::in_object(nobody).to_string(),
        "originalReference": "NOBODYS", "pspReference": format!("POISON{number}"), "success": "true",
    })
}

fn entry(item: &Value, now_ms: u64) -> Entry {
    let body = json!({ "notificationItems": [{ "NotificationRequestItem": item }] });
    let items = adyen::items(body.to_string().as_bytes()).expect("a notification");
    items.into_iter().find_map(|item| Entry::of(item, None, now_ms)).expect("an event")
}

impl Drop for Inbox {
    fn drop(&mut self) {
        let Some(database) = self.database.take() else { return };
        let is_empty = database.connection.execute_batch("DELETE FROM inbox; DELETE FROM inbox_turn").is_ok();
        SPARE.set(is_empty.then_some(database));
    }
}

impl World {
    /// A notification has come: it is written down, and acknowledged.
    pub(crate) fn receive(&mut self, number: usize, event_id: &str, item: &Value) {
        if self.webhooks_fault("inbox: not stored") {
            return;
        }
        let mut entries = vec![entry(item, self.now_ms)];
        if self.webhooks_fault("inbox: poison comes with it") {
            self.inbox.poisons += 1;
            entries.insert(0, entry(&poison(self.inbox.poisons), self.now_ms));
        }
        self.inbox.numbers.insert(event_id.to_owned(), number);
        let sql = match self.disabled {
            Some(Disabled::Recaptures) => STORE.replace("excluded.told_at_ms > inbox.told_at_ms", "false"),
            _ => STORE.to_owned(),
        };
        let bindings = vec![text(&stored(&entries)), integer(self.now_ms)];
        self.inbox.database().exec(&sql, bindings).expect("what is stored");
        self.counters.count("inbox: stored");
        if self.inbox.is_untried(event_id) {
            self.inbox.untried.entry(event_id.to_owned()).or_insert(self.now_ms);
        }
        self.acknowledge(number);
        if !self.webhooks_fault("inbox: dies before it works") {
            let keys = entries.into_iter().map(|entry| entry.key).collect();
            self.after(20, Event::Inbox(keys));
        }
        self.set_clock();
    }

    /// The clock strikes next after something is due.
    fn set_clock(&mut self) {
        let Some(due_at_ms) = self.inbox.due_at_ms() else { return };
        let at_ms = due_at_ms.max(self.now_ms + 1).next_multiple_of(CLOCK_MS);
        if self.inbox.clock_at_ms.is_none_or(|clock_at_ms| at_ms < clock_at_ms || clock_at_ms <= self.now_ms)
        {
            self.inbox.clock_at_ms = Some(at_ms);
            self.after(at_ms - self.now_ms, Event::InboxClock);
        }
    }

    /// What has just come is worked on.
    pub(crate) fn work_at_once(&mut self, keys: &[String]) {
        if self.disabled == Some(Disabled::OwnPlaces) {
            return self.work_in_order();
        }
        let bindings = vec![text(&json!(keys).to_string()), integer(self.now_ms)];
        for claimed in self.inbox.claim(CLAIM, bindings) {
            self.work(&claimed);
        }
        self.set_clock();
    }

    /// What is due is worked on.
    pub(crate) fn work_by_the_clock(&mut self) {
        self.counters.count("inbox: the clock strikes");
        if self.disabled == Some(Disabled::OwnPlaces) {
            self.work_in_order();
        } else {
            for claimed in self.inbox.claim_due(self.now_ms, DUE_MAX) {
                self.work(&claimed);
            }
        }
        self.set_clock();
    }

    /// As a queue would be: the oldest first, and none before it is done.
    fn work_in_order(&mut self) {
        let sql = "SELECT event_key, kind, object, provider_payment, event, event_id, told_at_ms, attempts, history, received_at_ms
            FROM inbox WHERE state = 'waiting' ORDER BY received_at_ms, rowid";
        for claimed in self.inbox.claim(sql, Vec::new()) {
            if !matches!(self.work(&claimed), Some(Next::Done(_))) {
                let sql = "UPDATE inbox SET next_at_ms = ? WHERE state = 'waiting'";
                let bindings = vec![integer(self.now_ms + CLOCK_MS)];
                return self.inbox.database().exec(sql, bindings).expect("all wait");
            }
        }
    }

    /// One try, and what is written down of it: nothing, where whoever works dies first.
    fn work(&mut self, claimed: &Claimed) -> Option<Next> {
        if let Some(stored_at_ms) = self.inbox.untried.remove(&claimed.event_id) {
            let waited_ms = self.now_ms - stored_at_ms;
            if waited_ms > FIRST_TRY_WITHIN_MS {
                self.auditor.overdue("a stored event", waited_ms);
            }
        }
        let number = self.inbox.numbers.get(&claimed.event_id).copied();
        let object = number.and_then(|number| self.object_of_event(number));
        let attempt = number.map_or(Attempt::UnknownResource, |number| self.take_in(number, None));
        match (&attempt, object) {
            (Attempt::Busy, Some(object)) => drop(self.inbox.busy.insert(claimed.event_key.clone(), object)),
            (Attempt::Over(_), _) => drop(self.inbox.busy.remove(&claimed.event_key)),
            _ => {}
        }
        if self.webhooks_fault("inbox: dies after it worked") {
            return None;
        }
        let next = claimed.next(attempt, self.now_ms);
        let bindings = vec![
            text(&claimed.event_key),
            text(&claimed.event_id),
            text(next.state()),
            text(next.what()),
            text(&claimed.history_with(&next, self.now_ms)),
            integer(self.now_ms),
        ];
        self.inbox.database().exec(END, bindings).expect("how it ended");
        self.counters.count(match next {
            Next::Done(_) => "inbox: done",
            Next::Again(_) => "inbox: again",
            Next::Dead(_) => "inbox: dead",
        });
        Some(next)
    }
}

/// What is due of each account, by what takes it.
#[cfg(test)]
fn claimed_by(claim: impl Fn(&mut Inbox) -> Vec<Claimed>) -> Vec<(String, bool)> {
    let mut inbox = Inbox::new();
    let ours = PaymentId::in_object(ObjectId::from_bytes([0xAB; 32])).to_string();
    let told = [
        (Some("keys:busy/Busy"), "somebody's", 500),
        (Some("keys:busy/Busy"), ours.as_str(), 2),
        (Some("keys:other/Other"), "somebody's", 3),
        (None, ours.as_str(), 4),
    ];
    // Those of the busy one have waited longest.
    for (now_ms, (account, reference, number)) in (1..).zip(told) {
        for one in 0..number {
            let body = json!({ "notificationItems": [{ "NotificationRequestItem": {
                "eventCode": "REFUND", "merchantReference": reference, "originalReference": format!("P{one}"),
                "pspReference": format!("R{now_ms}-{one}"), "success": "true",
            } }] });
            let items = adyen::items(body.to_string().as_bytes()).expect("a notification");
            let entries: Vec<Entry> =
                items.into_iter().filter_map(|item| Entry::of(item, account, now_ms)).collect();
            let bindings = vec![text(&stored(&entries)), integer(now_ms)];
            inbox.database().exec(STORE, bindings).expect("what is stored");
        }
    }
    let claimed = claim(&mut inbox);
    assert_eq!(claimed.len(), 20);
    let account = |claimed: &Claimed| {
        let of = claimed.event_key.split(":adyen:").next().filter(|of| *of != claimed.event_key);
        (of.unwrap_or_default().to_owned(), claimed.object.is_some())
    };
    claimed.iter().map(account).collect()
}

#[test]
fn a_merchant_account_that_tells_of_much_that_is_not_ours_holds_up_no_other() {
    let claimed = claimed_by(|inbox| inbox.claim_due(10 * MINUTE, 20));
    let of = |account: &str, is_named| {
        claimed.iter().filter(|one| **one == (account.to_owned(), is_named)).count()
    };
    assert_eq!(of("", true), 4);
    assert_eq!(of("keys:other:Other", false), 3);
    assert_eq!(of("keys:busy:Busy", true), 2, "nor what is ours of its own");
    assert_eq!(of("keys:busy:Busy", false), 11, "and it has what is left");
}

#[test]
fn control_by_the_time_alone_it_has_all_turns() {
    let by_time = "SELECT event_key, kind, object, provider_payment, event, event_id, told_at_ms, attempts, history, received_at_ms
        FROM inbox WHERE state = 'waiting' AND next_at_ms <= ?1 ORDER BY next_at_ms LIMIT ?2";
    let claim = |inbox: &mut Inbox| inbox.claim(by_time, vec![integer(10 * MINUTE), integer(20)]);
    assert!(claimed_by(claim).iter().all(|(account, is_named)| account == "keys:busy:Busy" && !is_named));
}

/// An inbox in which so many accounts have so many events each that are due, half of them of objects of ours.
#[cfg(test)]
fn crowded(accounts: u32, events: u32) -> Inbox {
    let mut inbox = Inbox::new();
    let sql = "WITH RECURSIVE accounts (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM accounts WHERE n < ?1),
            events (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM events WHERE n < ?2)
         INSERT INTO inbox (event_key, provider, kind, account, object, event_id, told_at_ms, state, attempts, history, next_at_ms,
            received_at_ms, updated_at_ms)
         SELECT printf('keys:%05d:adyen:%d', accounts.n, events.n), 'adyen', 'REFUND', printf('keys:%05d', accounts.n),
            iif(events.n % 2, 'ab', NULL), events.n, events.n, 'waiting', 0, '[]', 1, 1, 1 FROM accounts, events";
    inbox.database().exec(sql, vec![integer(accounts.into()), integer(events.into())]).expect("a crowd");
    inbox
}

/// How many steps SQLite took for a statement: they grow with the rows that it reads.
#[cfg(test)]
fn steps(inbox: &mut Inbox, sql: &str, values: &[&dyn rusqlite::ToSql]) -> i32 {
    let database = inbox.database();
    let mut statement = database.connection.prepare(sql).expect("a statement");
    let mut rows = statement.query(values).expect("its rows");
    while rows.next().expect("a row").is_some() {}
    drop(rows);
    statement.get_status(rusqlite::StatementStatus::VmStep)
}

/// How many steps the turns and the claim of a run take, and what is claimed.
#[cfg(test)]
fn steps_of_a_run(accounts: u32, events: u32) -> (i32, i32, usize) {
    let mut inbox = crowded(accounts, events);
    let looked = steps(&mut inbox, TELLERS, &[&10, &TELLERS_MAX]);
    let tellers = inbox.database().query(TELLERS, vec![integer(10), integer(TELLERS_MAX.into())]);
    let due = Turns::of(&tellers.expect("whose turn it is")).due.expect("something is due");
    let claimed = steps(&mut inbox, CLAIM_DUE, &[&10, &DUE_MAX, &due]);
    let sql = "SELECT attempts FROM inbox WHERE attempts > 0";
    let tried: Vec<Value> = inbox.database().query(sql, Vec::new()).expect("what was claimed");
    (looked, claimed, tried.len())
}

#[test]
fn a_run_reads_as_much_as_it_takes_however_much_waits_of_however_many() {
    let (few_looked, few_claimed, few) = steps_of_a_run(600, 4);
    for (accounts, events) in [(600, 100), (6_000, 10), (1, 20_000)] {
        let (looked, claimed, taken) = steps_of_a_run(accounts, events);
        assert_eq!((few, taken), (200, 200), "{accounts} × {events}");
        assert!(looked <= few_looked * 11 / 10, "{accounts} × {events}: {looked}, not {few_looked}");
        assert!(claimed <= few_claimed * 11 / 10, "{accounts} × {events}: {claimed}, not {few_claimed}");
    }
}

#[test]
fn control_by_the_first_of_each_account_it_reads_what_waits_of_all() {
    let numbered = "SELECT event_key FROM (
            SELECT event_key, row_number() OVER (PARTITION BY account, object IS NULL ORDER BY next_at_ms) AS turn FROM inbox
            WHERE state = 'waiting' AND next_at_ms <= ?1) ORDER BY turn LIMIT ?2";
    let [few, many] = [4, 100].map(|events| steps(&mut crowded(600, events), numbered, &[&10, &DUE_MAX]));
    assert!(many > few * 10, "{many}, not {few}");
}

#[test]
fn each_of_many_accounts_has_its_turn_before_one_has_its_second() {
    let mut inbox = crowded(1_250, 4);
    let mut turns: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    // A run takes one named event and one that is not of each: 200 of 100 accounts.
    for run in 0..13 {
        for claimed in inbox.claim_due(10 + u64::from(run), DUE_MAX) {
            let account = claimed.event_key.split(":adyen:").next().unwrap_or_default();
            turns.entry(account.to_owned()).or_default().push(run);
        }
    }
    assert_eq!(turns.len(), 1_250, "all have had one");
    let again = turns.values().filter(|runs| runs.len() > 2).count();
    assert_eq!(again, 50, "the last run begins the next round");
    // What waits of those that are in front is in nobody's way: nothing is due of them.
    let sql = "UPDATE inbox SET next_at_ms = 1000000 WHERE account < 'keys:01240'";
    inbox.database().exec(sql, Vec::new()).expect("they wait");
    let sql = "UPDATE inbox SET next_at_ms = 1 WHERE account >= 'keys:01240'";
    inbox.database().exec(sql, Vec::new()).expect("they are due");
    let claimed: Vec<usize> = (0..3).map(|run| inbox.claim_due(2_000 + run, DUE_MAX).len()).collect();
    assert_eq!(claimed, [0, 0, 44], "500 accounts in each run");
}
