//! The inbox: what Adyen tells is written down and acknowledged at once, and worked on afterwards, each event by itself.
//!
//! Adyen keeps one queue for a webhook: an event that is not acknowledged holds up all others. So an event that cannot be
//! placed yet waits here. A try is counted, and the time of the next one is set, before it begins ([`CLAIM_DUE`]): one that
//! breaks whoever works on it is behind all others already. After bounded time it is a dead letter, for a person.
//!
//! Merchant accounts have their turns: whatever one of them tells of payments that are not ours, it holds up no other, and nothing of its own that
//! names a payment of ours. Where more of them wait than have a turn in one run, the next run goes on behind the last one ([`TELLERS`]).
//!
//! Duplicates have the same `eventCode` and `pspReference`, and the latest `eventDate` counts: a capture that is made again
//! after it has failed differs from the first one by its date alone. The date is not signed, so it decides nothing else:
//! what differs in `success` is no duplicate, and no date lies after the time at which the event came.
//!
//! The statements are run by D1, and by the simulation.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use payments::providers::adyen::webhook::Item;

/// How long the first try may take, in ms: before that the clock does not begin another one.
const FIRST_TRY_MS: u64 = 60_000;
/// How long an event is tried whose object does not answer, or waits for a call whose outcome is unknown, in ms.
const TRIED_MAX_MS: u64 = 7 * 86_400_000;
/// How long one is tried of whose payment nothing is known, in ms; and after how long a person is told of any that waits.
const TOLD_AFTER_MS: u64 = 86_400_000;
/// After how many tries what tells of itself, and has no reference of ours, is somebody else's.
const FOREIGN_TRIES: u32 = 4;
/// How long after an event has come its payment may be new to the read model, in ms: after [`FOREIGN_TRIES`] it is looked for once more.
const NEW_MS: u64 = 60_000;
/// And how long it may be late there: then it is looked for for the last time. The tries go on until then, with growing pauses, and end before a person
/// is told ([`TOLD_AFTER_MS`]).
const LATE_MS: u64 = 18 * 3_600_000;
/// How many lines of an event's history are kept.
const HISTORY_MAX: usize = 20;
/// How many events one run of the clock works on: an invocation has 1000 calls.
pub const DUE_MAX: u32 = 200;
/// How many accounts of which something waits one run of the clock looks at: of more, the next run goes on behind them.
pub const TELLERS_MAX: u32 = 500;

/// Writes down the events of one request, all or none: `?1` is [`stored`], `?2` the time. A duplicate that is not later than
/// what is there changes nothing, unless an operator has dropped that: whoever sends it again wants it worked on.
pub const STORE: &str = "INSERT INTO inbox (event_key, provider, kind, account, object, provider_payment, event, event_id, told_at_ms,
        state, attempts, history, next_at_ms, received_at_ms, updated_at_ms)
     SELECT value->>'key', value->>'provider', value->>'kind', value->>'account', value->>'object', value->>'payment', value->>'event',
        value->>'event_id', value->>'told_at_ms', 'waiting', 0, '[]', value->>'first_until_ms', ?2, ?2
     FROM json_each(?1) WHERE true
     ON CONFLICT (event_key) DO UPDATE SET object = excluded.object, provider_payment = excluded.provider_payment,
        event = excluded.event, event_id = excluded.event_id, told_at_ms = excluded.told_at_ms, state = 'waiting',
        attempts = 0, outcome = NULL, next_at_ms = excluded.next_at_ms, received_at_ms = excluded.received_at_ms,
        updated_at_ms = excluded.updated_at_ms
     WHERE excluded.told_at_ms > inbox.told_at_ms OR inbox.state = 'purged' AND excluded.told_at_ms = inbox.told_at_ms";

/// Begins a try of these (`?1`, a JSON list of keys) at `?2`.
pub const CLAIM: &str = "UPDATE inbox SET attempts = attempts + 1, updated_at_ms = ?2,
        next_at_ms = ?2 + min(21600000, 30000 << min(attempts, 20))
     WHERE state = 'waiting' AND event_key IN (SELECT value FROM json_each(?1))
     RETURNING event_key, kind, object, provider_payment, event, event_id, told_at_ms, attempts, history, received_at_ms";

/// Whose turn it is at `?1`: at most `?2` of the accounts of which something waits, from the one behind the last turn on and around, each with whether
/// something is due of it that names one of our objects, and that names none. It reads two entries of the index for each.
pub const TELLERS: &str = "WITH RECURSIVE turn (account) AS (SELECT coalesce((SELECT account FROM inbox_turn WHERE id = 1), '~')),
     behind (account) AS (
        SELECT (SELECT min(i.account) FROM inbox i WHERE i.state = 'waiting' AND i.account > (SELECT account FROM turn))
        UNION ALL SELECT (SELECT min(i.account) FROM inbox i WHERE i.state = 'waiting' AND i.account > behind.account)
        FROM behind WHERE behind.account IS NOT NULL),
     before (account) AS (
        SELECT min(account) FROM inbox WHERE state = 'waiting'
        UNION ALL SELECT (SELECT min(i.account) FROM inbox i WHERE i.state = 'waiting' AND i.account > before.account)
        FROM before WHERE before.account < (SELECT account FROM turn))
     SELECT tellers.account,
        EXISTS (SELECT 1 FROM inbox i WHERE i.state = 'waiting' AND i.account = tellers.account AND (i.object IS NULL) = 0
            AND i.next_at_ms <= ?1) AS named,
        EXISTS (SELECT 1 FROM inbox i WHERE i.state = 'waiting' AND i.account = tellers.account AND (i.object IS NULL) = 1
            AND i.next_at_ms <= ?1) AS unnamed
     FROM (SELECT account FROM behind WHERE account IS NOT NULL
        UNION ALL SELECT account FROM before WHERE account <= (SELECT account FROM turn)) AS tellers LIMIT ?2";

/// Remembers whose turn was the last one: `?1`.
pub const TURN: &str = "INSERT INTO inbox_turn (id, account) VALUES (1, ?1) ON CONFLICT (id) DO UPDATE SET account = excluded.account";

/// Begins a try of what is due at `?1`, at most `?2` of them, of those whose turn it is (`?3`, [`Turns::of`]): of each first what has waited longest
/// there, then what is next. So however much of one is due, others' wait for no more than one of each before. What it reads is bounded by what it takes
/// and by the turns, however much waits: each that is taken brings the next one of its account into the queue.
pub const CLAIM_DUE: &str = "WITH RECURSIVE due (id, account, is_unnamed, turn, next_at_ms) AS (
        SELECT w.rowid, w.account, turns.value ->> 1, 1, w.next_at_ms FROM json_each(?3) AS turns CROSS JOIN inbox w ON w.rowid = (
            SELECT i.rowid FROM inbox i WHERE i.state = 'waiting' AND i.account = turns.value ->> 0
                AND (i.object IS NULL) = turns.value ->> 1 AND i.next_at_ms <= ?1 ORDER BY i.next_at_ms, i.rowid LIMIT 1)
        UNION ALL
        SELECT w.rowid, due.account, due.is_unnamed, due.turn + 1, w.next_at_ms FROM due CROSS JOIN inbox w ON w.rowid = coalesce(
            (SELECT i.rowid FROM inbox i WHERE i.state = 'waiting' AND i.account = due.account AND (i.object IS NULL) = due.is_unnamed
                AND i.next_at_ms = due.next_at_ms AND i.rowid > due.id ORDER BY i.rowid LIMIT 1),
            (SELECT i.rowid FROM inbox i WHERE i.state = 'waiting' AND i.account = due.account AND (i.object IS NULL) = due.is_unnamed
                AND i.next_at_ms > due.next_at_ms AND i.next_at_ms <= ?1 ORDER BY i.next_at_ms, i.rowid LIMIT 1))
        ORDER BY 4, 5 LIMIT ?2)
     UPDATE inbox SET attempts = attempts + 1, updated_at_ms = ?1,
        next_at_ms = ?1 + min(21600000, 30000 << min(attempts, 20))
     WHERE rowid IN (SELECT id FROM due)
     RETURNING event_key, kind, object, provider_payment, event, event_id, told_at_ms, attempts, history, received_at_ms";

/// Writes down how a try of `?1` ended: the state `?3`, the outcome `?4`, the history `?5`, at `?6`. What has come meanwhile
/// under the same key (`?2` is not its id) waits as before. What is over keeps nothing of what it said.
pub const END: &str = "UPDATE inbox SET state = ?3, outcome = ?4, history = ?5, updated_at_ms = ?6,
        event = CASE ?3 WHEN 'done' THEN NULL ELSE event END
     WHERE event_key = ?1 AND event_id = ?2 AND state = 'waiting'";

/// A try of `?1` was not over: the next one, at `?2`, goes on with it. What has come meanwhile under the same key (`?3` is not its id) waits as before.
pub const GO_ON: &str = "UPDATE inbox SET next_at_ms = ?2, attempts = attempts - 1 WHERE event_key = ?1 AND event_id = ?3 AND state = 'waiting' AND attempts > 0";

/// Gives dead events (`?1`, a JSON list of keys) all their time again, from `?2` on.
pub const REQUEUE: &str =
    "UPDATE inbox SET state = 'waiting', attempts = 0, next_at_ms = ?2, received_at_ms = ?2,
        updated_at_ms = ?2
     WHERE state = 'dead' AND event IS NOT NULL AND event_key IN (SELECT value FROM json_each(?1))";

/// An event that is written down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// `{provider}:{eventCode}:{pspReference}:{success}`; before it the merchant account with keys of its own that it is of, if it is of one: no
    /// one can take the place of what another is told.
    pub key: String,
    provider: &'static str,
    kind: String,
    /// What stands for the merchant account with keys of its own that it is of; empty for the deployment's.
    account: String,
    /// The object that our reference names, as hexadecimal digits.
    pub object: Option<String>,
    /// The provider's id of the payment.
    payment: Option<String>,
    /// What it says, as its object takes it: JSON.
    pub event: String,
    event_id: String,
    told_at_ms: u64,
    /// When the clock takes it up, should the first try break off.
    first_until_ms: u64,
}

impl Entry {
    /// Of a notification that came at `now_ms` (since the epoch), and what stands for the merchant account with
    /// [keys of its own](payments::payment::own_keys) in which it happened, if it has any. `None` if nothing can follow from it: it tells of no
    /// payment.
    pub fn of(item: Item, account: Option<&str>, now_ms: u64) -> Option<Self> {
        // It stands in addresses. What is told in another account is another thing, whatever it is called there.
        let apart = |id: String| match account {
            Some(name) => format!("{}:{id}", name.replace('/', ":")),
            None => id,
        };
        let key = apart(item.key());
        let told_at_ms = item.told_at_ms().map_or(now_ms, |told_at_ms| told_at_ms.min(now_ms));
        let (mut event, object) = item.read();
        event.account = account.map(str::to_owned);
        event.event_id = apart(event.event_id);
        let payment =
            event.news.told().map(|told| told.payment.clone()).filter(|payment| !payment.is_empty());
        if object.is_none() && payment.is_none() {
            return None;
        }
        Some(Self {
            key,
            provider: event.provider.as_str(),
            kind: event.kind.clone(),
            account: account.unwrap_or_default().to_owned(),
            object: object.map(|object| object.to_hex()),
            payment,
            event: serde_json::to_string(&event).ok()?,
            event_id: event.event_id,
            told_at_ms,
            first_until_ms: now_ms.saturating_add(FIRST_TRY_MS),
        })
    }
}

/// An account of which something waits: a row of [`TELLERS`].
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Teller {
    account: String,
    /// 1 if something is due of it that names one of our objects.
    named: u8,
    /// And that names none.
    unnamed: u8,
}

/// Who has a turn in a run of the clock.
#[derive(Debug, PartialEq, Eq)]
pub struct Turns {
    /// What [`CLAIM_DUE`] takes. `None` if nothing is due of them.
    pub due: Option<String>,
    /// Whose turn was the last one, where more may wait behind it: for [`TURN`].
    pub last: Option<String>,
}

impl Turns {
    /// Of these, in their order: as many as fill a run, or all.
    pub fn of(tellers: &[Teller]) -> Self {
        let most = usize::try_from(DUE_MAX).unwrap_or(usize::MAX);
        let mut due = Vec::new();
        let mut looked_at = 0;
        for teller in tellers {
            if due.len() >= most {
                break;
            }
            looked_at += 1;
            for (is_due, is_unnamed) in [(teller.named, 0), (teller.unnamed, 1)] {
                due.extend((is_due == 1).then(|| json!([teller.account, is_unnamed])));
            }
        }
        let is_all =
            looked_at == tellers.len() && tellers.len() < usize::try_from(TELLERS_MAX).unwrap_or(usize::MAX);
        let last = tellers.get(..looked_at).and_then(<[_]>::last).filter(|_| !is_all);
        Self {
            due: (!due.is_empty()).then(|| json!(due).to_string()),
            last: last.map(|last| last.account.clone()),
        }
    }
}

/// What [`STORE`] writes down.
pub fn stored(entries: &[Entry]) -> String {
    json!(entries).to_string()
}

/// An event of which a try has begun.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Claimed {
    /// As in [`Entry`].
    pub event_key: String,
    /// The provider's word for what happened.
    pub kind: String,
    /// The object that our reference names, as hexadecimal digits.
    pub object: Option<String>,
    /// The provider's id of the payment.
    pub provider_payment: Option<String>,
    /// An [`Event`](payments::payment::provider_event::Event), as JSON.
    pub event: Option<String>,
    /// The provider's id of the event.
    pub event_id: String,
    /// When it happened, in ms since the epoch.
    pub told_at_ms: u64,
    /// How many tries have begun.
    pub attempts: u32,
    /// As JSON.
    pub history: String,
    /// When it came, in ms since the epoch.
    pub received_at_ms: u64,
}

/// What a try has come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// The object has taken it in, knew it, or it is not ours.
    Over(&'static str),
    /// It is about a call that is on its way.
    Busy,
    /// The object that it names has nothing.
    UnknownResource,
    /// Our reference is not in it, and the read model has no such payment, or not yet.
    UnknownPayment,
    /// It tells of itself, as a payment of ours would with our reference.
    Foreign,
    /// The same, and there are shards of it that were not asked yet.
    Searching,
    /// It could not be worked on.
    Failed(String),
}

/// What follows from a try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing more.
    Done(&'static str),
    /// Another try, at the time that is set already.
    Again(String),
    /// It is given up: for a person.
    Dead(String),
}

impl Next {
    /// The state that it leaves.
    pub const fn state(&self) -> &'static str {
        match self {
            Self::Done(_) => "done",
            Self::Again(_) => "waiting",
            Self::Dead(_) => "dead",
        }
    }

    /// What is written down of it.
    pub fn what(&self) -> &str {
        match self {
            Self::Done(outcome) => outcome,
            Self::Again(error) | Self::Dead(error) => error,
        }
    }
}

impl Claimed {
    /// What follows from a try that ended at `now_ms` (since the epoch).
    pub fn next(&self, attempt: Attempt, now_ms: u64) -> Next {
        let age_ms = now_ms.saturating_sub(self.received_at_ms);
        let (error, most_ms) = match attempt {
            Attempt::Over(outcome) => return Next::Done(outcome),
            Attempt::Foreign if self.attempts >= FOREIGN_TRIES => return Next::Done("not ours"),
            Attempt::UnknownPayment if age_ms >= LATE_MS => return Next::Done("not ours"),
            Attempt::Foreign | Attempt::UnknownPayment => {
                ("no payment of ours is known by this reference".to_owned(), u64::MAX)
            }
            Attempt::Searching => ("its payment is looked for in all shards".to_owned(), TRIED_MAX_MS),
            Attempt::Busy => ("the call that it is about is on its way".to_owned(), TRIED_MAX_MS),
            Attempt::UnknownResource => {
                ("nothing is known of the payment that it names".to_owned(), TOLD_AFTER_MS)
            }
            Attempt::Failed(error) => (error, TRIED_MAX_MS),
        };
        if age_ms >= most_ms { Next::Dead(error) } else { Next::Again(error) }
    }

    /// A round of all places says in a try at `now_ms` that nobody's payment it is if it has begun then or later, both in ms since the epoch.
    pub const fn looked_for_from_ms(&self, now_ms: u64) -> u64 {
        let late_ms = match now_ms.saturating_sub(self.received_at_ms) {
            LATE_MS.. => LATE_MS,
            _ if self.attempts >= FOREIGN_TRIES => NEW_MS,
            _ => 0,
        };
        self.received_at_ms.saturating_add(late_ms)
    }

    /// The history, with the end of this try.
    pub fn history_with(&self, next: &Next, now_ms: u64) -> String {
        let mut lines: Vec<Value> = json_text::from_str(&self.history).unwrap_or_default();
        if !matches!(next, Next::Done(_)) {
            lines.push(json!({ "at_ms": now_ms, "error": next.what() }));
        }
        let old = lines.len().saturating_sub(HISTORY_MAX);
        json!(lines.split_off(old)).to_string()
    }

    /// What a person is told of after a try that ended at `now_ms` (since the epoch), if it is anything.
    pub fn note(&self, next: &Next, now_ms: u64) -> Option<String> {
        let age_ms = now_ms.saturating_sub(self.received_at_ms);
        match next {
            Next::Dead(error) => Some(format!("it could not be taken in, and is a dead letter: {error}")),
            Next::Again(error) if age_ms >= TOLD_AFTER_MS => {
                Some(format!("it cannot be taken in yet, and is still tried: {error}"))
            }
            Next::Done(_) | Next::Again(_) => None,
        }
    }

    /// Whether it is tried again for the same reason as at the last try: who has accepted that is told nothing new.
    pub fn says_the_same(&self, next: &Next) -> bool {
        let lines: Vec<Value> = json_text::from_str(&self.history).unwrap_or_default();
        let last = lines.last().and_then(|line| line.get("error"));
        matches!(next, Next::Again(error) if last == Some(&json!(error)))
    }

    /// Whether an earlier try has failed: a break may be open.
    pub fn has_failed(&self) -> bool {
        self.history != "[]"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY_MS: u64 = 86_400_000;

    fn claimed(attempts: u32) -> Claimed {
        Claimed {
            event_key: "adyen:CAPTURE:PSP:true".to_owned(),
            kind: "CAPTURE".to_owned(),
            object: None,
            provider_payment: None,
            event: None,
            event_id: "CAPTURE:PSP:true:".to_owned(),
            told_at_ms: 0,
            attempts,
            history: "[]".to_owned(),
            received_at_ms: 1_000,
        }
    }

    #[test]
    fn each_waits_as_long_as_it_may_come_to_something_and_then_is_given_up() {
        let state = |attempt: Attempt, age_ms| claimed(1).next(attempt, 1_000 + age_ms).state();
        for (attempt, days) in
            [(Attempt::UnknownResource, 1), (Attempt::Busy, 7), (Attempt::Failed("no answer".to_owned()), 7)]
        {
            assert_eq!(state(attempt.clone(), days * DAY_MS - 1), "waiting");
            assert_eq!(state(attempt, days * DAY_MS), "dead");
        }
        // A person is told before it is given up.
        let note = |age_ms| claimed(1).note(&Next::Again("busy".to_owned()), 1_000 + age_ms);
        assert_eq!((note(DAY_MS - 1), note(DAY_MS).is_some()), (None, true));
        assert_eq!(state(Attempt::Over("known"), 90 * DAY_MS), "done");
        // Others' events are no dead letters.
        let foreign = |attempts| claimed(attempts).next(Attempt::Foreign, 90 * DAY_MS).state();
        assert_eq!((foreign(FOREIGN_TRIES - 1), foreign(FOREIGN_TRIES)), ("waiting", "done"));
    }

    /// By the pauses of [`CLAIM_DUE`], after three tries at once.
    #[test]
    fn one_that_names_a_payment_by_its_id_alone_is_tried_for_most_of_a_day_before_it_is_nobodys() {
        let mut at_ms = 1_000;
        for attempts in FOREIGN_TRIES - 1.. {
            let one = claimed(attempts);
            let next = one.next(Attempt::UnknownPayment, at_ms);
            let looked_for_ms = one.looked_for_from_ms(at_ms) - 1_000;
            if next.state() == "done" {
                assert_eq!(next, Next::Done("not ours"));
                assert!((LATE_MS..TOLD_AFTER_MS - 3_600_000).contains(&(at_ms - 1_000)), "{at_ms}");
                assert_eq!(looked_for_ms, LATE_MS, "it is looked for once more");
                assert!((12..16).contains(&attempts), "{attempts}");
                return;
            }
            assert!(looked_for_ms <= NEW_MS && one.note(&next, at_ms).is_none());
            at_ms += (30_000 << (attempts - 1)).min(21_600_000);
        }
    }

    #[test]
    fn the_same_reason_again_is_nothing_new_and_a_dead_letter_is() {
        let again = |error: &str| Next::Again(error.to_owned());
        let mut one = claimed(1);
        assert!(!one.says_the_same(&again("busy")));
        one.history = one.history_with(&again("busy"), 1);
        assert!(one.says_the_same(&again("busy")));
        assert!(!one.says_the_same(&again("the object does not answer")));
        assert!(!one.says_the_same(&Next::Dead("busy".to_owned())));
    }

    #[test]
    fn a_history_keeps_the_newest_failures() {
        let mut one = claimed(1);
        for at_ms in 0..30 {
            one.history = one.history_with(&Next::Again("busy".to_owned()), at_ms);
        }
        let lines: Vec<Value> = json_text::from_str(&one.history).unwrap();
        assert_eq!((lines.len(), lines.last().unwrap()["at_ms"].as_u64()), (HISTORY_MAX, Some(29)));
        assert!(one.has_failed());
        assert_eq!(one.history_with(&Next::Done("known"), 31), one.history);
    }

    fn item(date: &str) -> Item {
        let body = json!({ "notificationItems": [{ "NotificationRequestItem": {
            "eventCode": "CAPTURE", "eventDate": date, "pspReference": "M1", "originalReference": "P1", "success": "true",
        } }] });
        payments::providers::adyen::webhook::items(body.to_string().as_bytes()).unwrap().remove(0)
    }

    #[test]
    fn no_date_lies_after_the_time_at_which_it_came() {
        let at_ms = |date| Entry::of(item(date), None, DAY_MS).unwrap().told_at_ms;
        assert_eq!(at_ms("1970-01-01T12:00:00+00:00"), DAY_MS / 2);
        assert_eq!(at_ms("2099-01-01T00:00:00+00:00"), DAY_MS);
        assert_eq!(at_ms("yesterday"), DAY_MS);
        let entry = Entry::of(item("yesterday"), None, DAY_MS).unwrap();
        assert_eq!((entry.key.as_str(), entry.payment.as_deref()), ("adyen:CAPTURE:M1:true", Some("P1")));
        let of_shop = Entry::of(item("yesterday"), Some("keys:a/Shop"), DAY_MS).unwrap();
        assert_eq!(of_shop.key, "keys:a:Shop:adyen:CAPTURE:M1:true");
        assert!(of_shop.event.contains(r#""account":"keys:a/Shop""#), "{}", of_shop.event);
    }
}
