//! Takes events to the objects that they are about: Adyen's out of the [inbox](messages::inbox), Stripe's as they come.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::{join, join_all};
use serde_json::{Value, json};
use worker::{Delay, Env, Result};

use super::lookup::{self, Asked, Found, Limits, Whose};
use super::{Event, Ingested};
use messages::inbox::{
    Attempt, CLAIM, CLAIM_DUE, Claimed, DUE_MAX, END, Entry, GO_ON, Next, STORE, TELLERS, TELLERS_MAX, TURN,
    Teller, Turns, stored,
};
use messages::message::ObjectRequest;
use once::id::ObjectId;
use once::sorted;
use payments::providers::Provider;
use runtime::client;
use runtime::db::{Db, Statement};
use runtime::http_client::within;
use runtime::log::log;

/// How long an object may take: it waits for nobody.
const OBJECT_TAKES: Duration = Duration::from_secs(10);
/// The pauses before the tries that follow the answer, in ms: a call that is on its way soon ends. The clock makes the others.
const PAUSES_MS: [u64; 3] = [0, 2_000, 6_000];

/// How many shards are asked for payments that are named by their provider's ids alone: by what follows an answer, or comes before one, and by a run of the
/// clock. An invocation has 10,000 requests.
const AT_ONCE: Limits = Limits { shards: 96, for_ms: 8_000 };
const DUE: Limits = Limits { shards: 2_000, for_ms: 60_000 };
/// How long it is believed that a payment of which Stripe tells is in no place, in ms: the reconciliation sees what comes later.
const NOBODYS_MS: u64 = 3_600_000;

/// Writes down what has come. Afterwards it can be acknowledged.
pub(crate) async fn store(env: &Env, entries: &[Entry], now_ms: u64) -> Result<()> {
    Db::of(env)?.run(STORE, vec![stored(entries).into(), now_ms.into()]).await.map(drop)
}

/// Takes what could not be written down straight to the objects that it names. An error says that it has to come again.
pub(crate) async fn deliver_unwritten(env: &Env, entries: &[Entry]) -> Result<()> {
    for entry in entries {
        let event = Event { is_unwritten: true, ..json_text::from_str(&entry.event)? };
        let object = entry.object.as_deref().and_then(ObjectId::from_hex);
        let Some(object) = object.filter(|object| is_ours(env, *object).unwrap_or(false)) else {
            return Err(worker::Error::RustError("it names no object of ours".to_owned()));
        };
        match within(OBJECT_TAKES, "the object", deliver(env, &event, object)).await? {
            Ingested::RetryLater | Ingested::UnknownResource => {
                return Err(worker::Error::RustError("its object cannot take it yet".to_owned()));
            }
            Ingested::OtherAccount => note(&event, "of another account"),
            _ => {}
        }
    }
    Ok(())
}

/// Works on what has just come.
pub(crate) async fn work_at_once(env: Env, mut keys: Vec<String>) {
    for pause_ms in PAUSES_MS {
        Delay::from(Duration::from_millis(pause_ms)).await;
        match claim_and_work(&env, &keys).await {
            Ok(left) if left.is_empty() => return,
            Ok(left) => keys = left,
            Err(error) => {
                log("error", &[("event", "inbox_failed".into()), ("error", error.to_string().into())]);
                return;
            }
        }
    }
}

async fn claim_and_work(env: &Env, keys: &[String]) -> Result<Vec<String>> {
    let db = Db::of(env)?;
    let values = vec![serde_json::to_string(keys)?.into(), runtime::now_ms().into()];
    let claimed: Vec<Claimed> = db.rows(CLAIM, values).await?;
    let ends = work(env, &db, claimed, AT_ONCE).await;
    let is_left = |(_, end): &(String, Result<Next>)| matches!(end, Ok(Next::Again(_)));
    Ok(ends.into_iter().filter(is_left).map(|(key, _)| key).collect())
}

/// Works on what is due.
pub(crate) async fn work_due(env: &Env) -> Result<Value> {
    let db = Db::of(env)?;
    let claimed = claim_due(&db, runtime::now_ms()).await?;
    let due = claimed.len();
    let ends = work(env, &db, claimed, DUE).await;
    let count = |is: fn(&Next) -> bool| ends.iter().filter(|(_, end)| end.as_ref().is_ok_and(is)).count();
    let (done, waiting) =
        (count(|end| matches!(end, Next::Done(_))), count(|end| matches!(end, Next::Again(_))));
    let dead = count(|end| matches!(end, Next::Dead(_)));
    Ok(
        json!({ "due": due, "done": done, "waiting": waiting, "dead": dead, "failed": due - done - waiting - dead }),
    )
}

/// Begins a try of what is due, by turns.
async fn claim_due(db: &Db, now_ms: u64) -> Result<Vec<Claimed>> {
    let tellers: Vec<Teller> = db.rows(TELLERS, vec![now_ms.into(), TELLERS_MAX.into()]).await?;
    let turns = Turns::of(&tellers);
    let mut statements = Vec::new();
    statements.extend(turns.last.map(|last| Statement::new(TURN, vec![last.into()])));
    let Some(due) = turns.due else {
        if !statements.is_empty() {
            db.batch(statements).await?;
        }
        return Ok(Vec::new());
    };
    statements.push(Statement::new(CLAIM_DUE, vec![now_ms.into(), DUE_MAX.into(), due.into()]));
    let (_, claimed) = db.batch_rows(statements).await?;
    Ok(claimed)
}

/// Works on each, those of one object in the order in which they happened. None waits for those of another, and none that names an object for those that
/// have to be looked for, within the limits.
async fn work(env: &Env, db: &Db, mut claimed: Vec<Claimed>, limits: Limits) -> Vec<(String, Result<Next>)> {
    sorted::by_key(&mut claimed, |claimed| claimed.told_at_ms);
    let (named, unnamed): (Vec<_>, Vec<_>) = claimed.into_iter().partition(|one| one.object.is_some());
    let none = Ok(Found::default());
    let look = async {
        let known = whose(env, &unnamed, limits).await.map_err(|error| error.to_string());
        work_with(env, db, &known, unnamed).await
    };
    let (mut ends, looked) = join(work_with(env, db, &none, named), look).await;
    ends.extend(looked);
    ends
}

async fn work_with(env: &Env, db: &Db, whose: &Known, claimed: Vec<Claimed>) -> Vec<(String, Result<Next>)> {
    let mut by_object: BTreeMap<Option<String>, Vec<Claimed>> = BTreeMap::new();
    for one in claimed {
        by_object.entry(one.object.clone().or_else(|| one.provider_payment.clone())).or_default().push(one);
    }
    let groups = by_object.into_values().map(|group| async move {
        let mut ends = Vec::new();
        for one in group {
            let end = end(env, db, whose, &one).await;
            if let Err(error) = &end {
                log("error", &[("event", "inbox_failed".into()), ("error", error.to_string().into())]);
            }
            ends.push((one.event_key, end));
        }
        ends
    });
    join_all(groups).await.into_iter().flatten().collect()
}

/// What is known of the payments that are named by their provider's ids alone.
type Known = std::result::Result<Found, String>;

async fn whose(env: &Env, claimed: &[Claimed], limits: Limits) -> Result<Found> {
    let events: Vec<(&Claimed, &str, Event)> = claimed
        .iter()
        .filter_map(|one| {
            let event = json_text::from_str(one.event.as_deref()?).ok()?;
            Some((one, one.provider_payment.as_deref()?, event))
        })
        .collect();
    let now_ms = runtime::now_ms();
    let asked: Vec<Asked<'_>> = events
        .iter()
        .map(|(one, payment, event)| Asked {
            payment,
            account: event.account.as_deref(),
            from_ms: one.looked_for_from_ms(now_ms),
            // Of others' there is no end.
            is_in_shards: !tells_of_itself(event),
        })
        .collect();
    lookup::find(env, Provider::Adyen, &asked, limits).await
}

/// What a payment of ours tells of itself has our reference: Adyen gives back what it was made with.
fn tells_of_itself(event: &Event) -> bool {
    event.news.told().is_some_and(|told| told.id == told.payment)
}

/// One try, and what is written down of it.
async fn end(env: &Env, db: &Db, whose: &Known, claimed: &Claimed) -> Result<Next> {
    let attempt =
        attempt(env, whose, claimed).await.unwrap_or_else(|error| Attempt::Failed(error.to_string()));
    let now_ms = runtime::now_ms();
    let is_searching = attempt == Attempt::Searching;
    let next = claimed.next(attempt, now_ms);
    let values = vec![
        claimed.event_key.as_str().into(),
        claimed.event_id.as_str().into(),
        next.state().into(),
        next.what().into(),
        claimed.history_with(&next, now_ms).into(),
        now_ms.into(),
    ];
    let mut statements = vec![Statement::new(END, values)];
    if is_searching {
        let values = vec![claimed.event_key.as_str().into(), now_ms.into(), claimed.event_id.as_str().into()];
        statements.push(Statement::new(GO_ON, values));
    }
    let break_id = format!("inbox:{}", claimed.event_key);
    match &next {
        Next::Done(_) if claimed.has_failed() => {
            let sql = "UPDATE breaks SET state = 'repaired', last_seen_at_ms = ?2 WHERE break_id = ?1 AND state = 'open'";
            statements.push(Statement::new(sql, vec![break_id.into(), now_ms.into()]));
        }
        Next::Done(_) => {}
        Next::Again(_) | Next::Dead(_) => {
            let Some(note) = claimed.note(&next, now_ms) else {
                return written(db, statements, claimed, next).await;
            };
            let sql =
                "INSERT INTO breaks (break_id, kind, provider, provider_payment, object, theirs, state, note,
                    first_seen_at_ms, last_seen_at_ms)
                 VALUES (?1, 'webhook', 'adyen', ?2, ?3, ?4, 'open', ?5, ?6, ?6)
                 ON CONFLICT (break_id) DO UPDATE SET last_seen_at_ms = excluded.last_seen_at_ms,
                    note = CASE WHEN breaks.state = 'accepted' AND ?7 THEN breaks.note ELSE excluded.note END,
                    state = CASE WHEN breaks.state = 'accepted' AND ?7 THEN 'accepted' ELSE 'open' END";
            let values = vec![
                break_id.into(),
                claimed.provider_payment.clone().into(),
                claimed.object.clone().into(),
                claimed.kind.as_str().into(),
                note.into(),
                now_ms.into(),
                u32::from(claimed.says_the_same(&next)).into(),
            ];
            statements.push(Statement::new(sql, values));
        }
    }
    written(db, statements, claimed, next).await
}

/// All of it, or nothing; and a line in the log of what is not over.
async fn written(db: &Db, statements: Vec<Statement>, claimed: &Claimed, next: Next) -> Result<Next> {
    db.batch(statements).await?;
    if !matches!(next, Next::Done(_)) {
        let level = if matches!(next, Next::Dead(_)) { "error" } else { "warn" };
        let fields = [
            ("event", "webhook_waits".into()),
            ("event_id", claimed.event_id.as_str().into()),
            ("state", next.state().into()),
            ("attempts", claimed.attempts.into()),
            ("error", next.what().into()),
        ];
        log(level, &fields);
    }
    Ok(next)
}

async fn attempt(env: &Env, whose: &Known, claimed: &Claimed) -> Result<Attempt> {
    let event: Event = json_text::from_str(claimed.event.as_deref().unwrap_or_default())?;
    let account = event.account.as_deref();
    let object = match (claimed.object.as_deref().and_then(ObjectId::from_hex), &claimed.provider_payment) {
        (Some(object), _) => object,
        (None, Some(payment)) => {
            match whose.as_ref().map(|found| found.of(Provider::Adyen, account, payment)) {
                Ok(Some(Whose::Object(object))) => *object,
                Ok(Some(Whose::Left)) => return Ok(Attempt::Searching),
                Ok(Some(Whose::Silent(why))) | Err(why) => return Ok(Attempt::Failed(why.clone())),
                Ok(Some(Whose::Nobodys) | None) if tells_of_itself(&event) => return Ok(Attempt::Foreign),
                Ok(Some(Whose::Nobodys) | None) => return Ok(Attempt::UnknownPayment),
            }
        }
        (None, None) => return Ok(Attempt::UnknownPayment),
    };
    if !is_ours(env, object)? {
        note(&event, "not ours");
        return Ok(Attempt::Over("not ours"));
    }
    Ok(match within(OBJECT_TAKES, "the object", deliver(env, &event, object)).await? {
        Ingested::Applied => Attempt::Over("taken_in"),
        Ingested::Duplicate => Attempt::Over("known"),
        Ingested::RetryLater => Attempt::Busy,
        Ingested::UnknownResource => Attempt::UnknownResource,
        Ingested::OtherAccount => {
            note(&event, "of another account");
            Attempt::Over("of another account")
        }
        Ingested::Alert { .. } | Ingested::Contradiction { .. } => Attempt::Over("contradiction"),
    })
}

/// Whether an id is one of our namespace's. The runtime signs them: another deployment's is not.
pub(crate) fn is_ours(env: &Env, object: ObjectId) -> Result<bool> {
    let namespace = env.durable_object("KEYS")?;
    Ok(namespace.id_from_string(&object.to_hex()).and_then(|id| id.get_stub()).is_ok())
}

/// The object of a payment of which Stripe tells by its own id alone, where that is found at once. What is not is for the reconciliation, which reads
/// Stripe's own list of events and looks in all places, some in each run.
pub(crate) async fn by_payment(env: &Env, event: &Event, payment: &str) -> Result<Option<ObjectId>> {
    let account = event.account.as_deref();
    let asked =
        Asked { payment, account, from_ms: runtime::now_ms().saturating_sub(NOBODYS_MS), is_in_shards: true };
    match lookup::find(env, Provider::Stripe, &[asked], AT_ONCE).await?.of(Provider::Stripe, account, payment)
    {
        Some(Whose::Object(object)) => Ok(Some(*object)),
        Some(Whose::Silent(why)) => Err(worker::Error::RustError(why.clone())),
        Some(Whose::Left) => {
            note(event, "not found at once: for the reconciliation");
            Ok(None)
        }
        Some(Whose::Nobodys) | None => Ok(None),
    }
}

/// Takes an event to its object, and what a person must see of it to the desk.
pub(crate) async fn deliver(env: &Env, event: &Event, object: ObjectId) -> Result<Ingested> {
    let taken: Ingested = client::ask(env, object, &ObjectRequest::Event(Box::new(event.clone()))).await?;
    if let Ingested::Alert { detail } | Ingested::Contradiction { detail } = &taken {
        note(event, detail);
        keep(env, event, object, detail).await?;
    }
    Ok(taken)
}

/// For a person, on the desk: what the provider says and we do not have.
async fn keep(env: &Env, event: &Event, object: ObjectId, detail: &str) -> Result<()> {
    let sql = "INSERT INTO breaks (break_id, kind, provider, object, theirs, state, note, first_seen_at_ms, last_seen_at_ms)
         VALUES (?1, 'webhook', ?2, ?3, ?4, 'open', ?5, ?6, ?6) ON CONFLICT (break_id) DO NOTHING";
    let values = vec![
        format!("{}:{}", event.provider.as_str(), event.event_id).into(),
        event.provider.as_str().into(),
        object.to_hex().into(),
        event.kind.as_str().into(),
        detail.into(),
        runtime::now_ms().into(),
    ];
    Db::of(env)?.run(sql, values).await.map(drop)
}

/// A line in the log.
pub(crate) fn note(event: &Event, what: &str) {
    let fields = [
        ("event", "webhook".into()),
        ("provider", event.provider.as_str().into()),
        ("event_id", event.event_id.as_str().into()),
        ("kind", event.kind.as_str().into()),
        ("outcome", what.into()),
    ];
    log("warn", &fields);
}
