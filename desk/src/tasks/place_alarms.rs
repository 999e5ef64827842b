//! What the cron has to do where each place of the read model has [runs of its own](super::place_runs): it begins those of places that have none, and
//! writes down what came of the newest one of each, task by task, as if it had done all of that itself.
//!
//! A place sets its own next alarm. So only those are told anything of which no run was heard for longer than any pause: new ones, those that somebody
//! has woken, and those whose alarm was lost. They are a page a run, and the next run goes on with the next ones.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use worker::{Env, Error, Result};

use super::names::{FAILING_PLACES, TELLING_PLACES};
use super::place_silence::{HEARD_WITHIN_MS, RunsOfD1};
use super::runs::{self, Kept};
use super::schedule::{D1, PLACE, ScheduledTask};
use super::settlement_file::{PROGRESS, Progress};
use super::settlement_place::{set, unset};
use super::{alarms, history};
use messages::placement::ShardName;
use runtime::db::Db;
use runtime::places;

/// How many are told in one run: each is a request.
const PAGE: u32 = 1_000;
/// Of how many places it is shown what is wrong there.
const TOLD_MAX: u32 = 10;
/// The cursor over the places.
const TURN: &str = "places";

/// The tasks of places, as the table of runs has them where the cron does all of it.
const TASKS: [&str; 5] = ["sweep", "settle", "history", "plots", "forget"];

/// The shards that are not at rest and of which no run was heard since `?1`, those first that were heard of before the others: from the one behind
/// `?2` on, which is called `?3`, at most `?4`.
const LATE: &str = "SELECT name, heard_at_ms FROM shards INDEXED BY shards_awake_by_heard
     WHERE rests_since_ms IS NULL AND heard_at_ms < ?1 AND (heard_at_ms, name) > (?2, ?3) ORDER BY heard_at_ms, name LIMIT ?4";

/// Whether each place has runs of its own.
pub(super) async fn have_objects(env: &Env) -> Result<bool> {
    #[derive(Deserialize)]
    struct Found {
        are_there: u8,
    }
    if !alarms::is_bound(env) || !places::is_bound(env) {
        return Ok(false);
    }
    let sql = "SELECT EXISTS (SELECT 1 FROM shards) AS are_there";
    let found: Option<Found> = Db::of(env)?.first(sql, Vec::new()).await?;
    Ok(found.is_some_and(|found| found.are_there == 1))
}

/// A page of the shards that are to be told.
#[derive(Debug, PartialEq, Eq)]
struct Page {
    shards: Vec<ShardName>,
    /// How many of them had runs before.
    late: usize,
    /// Where the next page begins.
    next: Turn,
}

/// Behind which shard a page begins; at first behind none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
struct Turn {
    heard_at_ms: u64,
    name: String,
}

/// A shard, and when it was heard of: 0 if it never was.
type Late = Turn;

impl Page {
    /// Of rows of at most so many.
    fn of(rows: Vec<Late>, most: u32) -> Self {
        let is_full = rows.len() >= usize::try_from(most).unwrap_or(usize::MAX);
        let next = rows.last().filter(|_| is_full).cloned().unwrap_or_default();
        let late = rows.iter().filter(|row| row.heard_at_ms > 0).count();
        Self { shards: rows.iter().filter_map(|row| ShardName::parse(&row.name)).collect(), late, next }
    }
}

/// Sees to it that each place has its alarm. `is_now`: an operator wants their runs now. The result says how many had none, and what is wrong where.
pub(super) async fn keep(env: &Env, is_now: bool) -> Result<Value> {
    let d1 = Db::of(env)?;
    let now_ms = runtime::now_ms();
    let sql = "SELECT through_ms AS heard_at_ms, coalesce(after, '') AS name FROM cursors WHERE name = ?1";
    let turn: Option<Turn> = d1.first(sql, vec![TURN.into()]).await?;
    let after = turn.unwrap_or_default();
    let heard_since_ms = if is_now { now_ms } else { now_ms.saturating_sub(HEARD_WITHIN_MS) };
    let values =
        vec![heard_since_ms.into(), after.heard_at_ms.into(), after.name.as_str().into(), PAGE.into()];
    let Page { shards, late, next } = Page::of(d1.rows(LATE, values).await?, PAGE);
    let tasks = std::iter::once(None).chain(shards.into_iter().map(Some)).map(ScheduledTask::Place);
    let woken = alarms::wake_all(env, tasks.collect(), is_now).await;
    if let Some(error) = woken.failed {
        return Err(Error::RustError(format!("an object of a place does not answer: {error}")));
    }
    if next != after {
        let sql = "INSERT INTO cursors (name, through_ms, after) VALUES (?1, ?2, ?3)
            ON CONFLICT (name) DO UPDATE SET through_ms = excluded.through_ms, after = excluded.after";
        d1.run(sql, vec![TURN.into(), next.heard_at_ms.into(), next.name.into()]).await?;
    }
    let number = number(&d1).await?;
    let mut result = json!({ "places": number, "begun": woken.set });
    if late > 0 && !is_now {
        set(&mut result, "late", late.into());
    }
    let failing = Failing::read(&d1).await?;
    if let Some((place, first)) = failing.places.first() {
        set(&mut result, "failing", failing.number.into());
        set(&mut result, "error", format!("{place}: {}", error_of(first).unwrap_or_default()).into());
    }
    if let Some(error) = RunsOfD1::read(&d1).await?.silence(now_ms) {
        set(&mut result, "error", error.into());
    }
    Ok(result)
}

/// How many places there are that are not at rest.
async fn number(d1: &Db) -> Result<u64> {
    #[derive(Deserialize)]
    struct Count {
        number: u64,
    }
    let count: Option<Count> =
        d1.first("SELECT 1 + awake AS number FROM shard_counts WHERE id = 1", vec![]).await?;
    Ok(count.map_or(1, |count| count.number))
}

/// Writes down what came of the newest run of each place, task by task.
pub(super) async fn record_newest(env: &Env) {
    let began_at_ms = runtime::now_ms();
    let newest = newest(env).await;
    for task in TASKS {
        let of_task = match &newest {
            Ok(newest) => Ok(newest.get(task).cloned().unwrap_or_else(|| json!({}))),
            Err(error) => Err(Error::RustError(error.to_string())),
        };
        runs::record(env, task, Kept::All, began_at_ms, of_task).await;
    }
}

async fn newest(env: &Env) -> Result<BTreeMap<&'static str, Value>> {
    let d1 = Db::of(env)?;
    let mut sums = sums(&d1).await?;
    let places = number(&d1).await?;
    let failing = Failing::read(&d1).await?;
    let runs_of_d1 = RunsOfD1::read(&d1).await?;
    let (of_d1, silence) = (runs_of_d1.result()?, runs_of_d1.silence(runtime::now_ms()));
    let mut all = BTreeMap::new();
    for task in TASKS {
        let mut result = Value::Object(sums.remove(task).unwrap_or_default());
        // What is no number is said of D1's alone.
        for (name, value) in of_d1.get(task).and_then(Value::as_object).into_iter().flatten() {
            if !value.is_number() {
                set(&mut result, name, value.clone());
            }
        }
        failing.tell(task, places, &mut result);
        // What was done long ago says nothing of now.
        if let Some(error) = &silence {
            set(&mut result, "error", error.as_str().into());
        }
        match task {
            "settle" if env.bucket("SETTLEMENT").is_err() => {
                result = json!({ "off": "there is no binding SETTLEMENT" });
            }
            "settle" => tell_behind(&d1, &mut result).await?,
            "history" if env.bucket(history::BUCKET).is_err() => {
                result = json!({ "off": "there is no binding HISTORY" });
            }
            _ => {}
        }
        all.insert(task, result);
    }
    Ok(all)
}

/// How far behind the settlement is now, and for which places the manifests wait.
async fn tell_behind(d1: &Db, result: &mut Value) -> Result<()> {
    #[derive(Deserialize)]
    struct Waits {
        places: u64,
        told: Option<String>,
    }
    let sql = "SELECT (SELECT count(*) FROM (SELECT DISTINCT place FROM settlement_places INDEXED BY settlement_places_unwritten
            WHERE written_at_ms IS NULL)) AS places,
        (SELECT json_group_object(place, error) FROM (SELECT place, error FROM settlement_places INDEXED BY settlement_places_unwritten
            WHERE written_at_ms IS NULL AND error IS NOT NULL AND place != '' LIMIT ?1)) AS told";
    let waits: Option<Waits> = d1.first(sql, vec![TOLD_MAX.into()]).await?;
    if let Some(Waits { places, told }) = waits.filter(|waits| waits.places > 0) {
        set(result, "places_left", places.into());
        let told: Map<String, Value> = serde_json::from_str(told.as_deref().unwrap_or("{}"))?;
        if !told.is_empty() {
            set(result, "waits_for", Value::Object(told));
        }
    }
    let progress: Option<Progress> = d1.first(PROGRESS, Vec::new()).await?;
    match progress.unwrap_or_default().behind_ms(runtime::now_ms()) {
        0 => unset(result, "behind_ms"),
        behind_ms => set(result, "behind_ms", behind_ms.into()),
    }
    Ok(())
}

/// One number of one task.
#[derive(Deserialize)]
struct Sum {
    task: String,
    name: String,
    sum: u64,
}

fn sums_sql() -> String {
    format!(
        "SELECT part.key AS task, number.key AS name, sum(number.value) AS sum
         FROM runs INDEXED BY runs_telling CROSS JOIN json_each(result) AS part
            CROSS JOIN json_each(CASE part.type WHEN 'object' THEN part.value ELSE json_object() END) AS number
         WHERE {TELLING_PLACES} AND number.type = 'integer'
         GROUP BY part.key, number.key ORDER BY min(runs.run_id), min(number.id)"
    )
}

/// The sums of the numbers that the newest runs say, task by task.
async fn sums(d1: &Db) -> Result<BTreeMap<String, Map<String, Value>>> {
    Ok(by_task(d1.rows(&sums_sql(), Vec::new()).await?))
}

fn by_task(rows: Vec<Sum>) -> BTreeMap<String, Map<String, Value>> {
    let mut tasks: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
    for Sum { task, name, sum } in rows {
        tasks.entry(task).or_default().insert(name, sum.into());
    }
    tasks
}

/// The places whose newest run has failed, or a task in it: those that have not run for longest.
struct Failing {
    number: u64,
    places: Vec<(String, Value)>,
}

impl Failing {
    async fn read(d1: &Db) -> Result<Self> {
        #[derive(Deserialize)]
        struct Row {
            number: u64,
            task: String,
            result: String,
        }
        let sql = format!(
            "SELECT count(*) OVER () AS number, task, result FROM runs INDEXED BY runs_failing_places
             WHERE {FAILING_PLACES} ORDER BY at_ms LIMIT ?1"
        );
        let rows: Vec<Row> = d1.rows(&sql, vec![TOLD_MAX.into()]).await?;
        let number = rows.first().map_or(0, |row| row.number);
        let place = |row: Row| {
            let name = row.task.strip_prefix(PLACE).unwrap_or_default().to_owned();
            Ok((name, serde_json::from_str(&row.result)?))
        };
        Ok(Self { number, places: rows.into_iter().map(place).collect::<Result<_>>()? })
    }

    /// Adds to the result of a task what is wrong with it where. What is wrong in D1 is an error of all.
    fn tell(&self, task: &str, places: u64, result: &mut Value) {
        let wrong = |result: &Value| match result.get(task) {
            Some(of_task) => error_of(of_task),
            // Where nothing has gone well the run says why; else the task is off.
            None => error_of(result).filter(|_| result.as_object().is_some_and(|result| result.len() == 1)),
        };
        let failed: Vec<(&String, String)> =
            self.places.iter().filter_map(|(place, result)| Some((place, wrong(result)?))).collect();
        if let Some((_, error)) = failed.iter().find(|(place, _)| *place == D1) {
            set(result, "error", error.as_str().into());
        }
        let of_shards: Vec<_> = failed.into_iter().filter(|(place, _)| *place != D1).collect();
        if of_shards.is_empty() {
            return;
        }
        // A settlement that waits says for which places.
        if task == "settle" {
            return;
        }
        if task == "history" {
            let failed = of_shards.iter().map(|(place, error)| ((*place).clone(), error.as_str().into()));
            set(result, "failed", Value::Object(failed.collect()));
            return;
        }
        let named: Vec<&str> = of_shards.iter().map(|(place, _)| place.as_str()).collect();
        let all = places.saturating_sub(1);
        let missing =
            format!("{} of {all} shards did not answer, or failed ({})", named.len(), named.join(", "));
        set(result, "missing", missing.into());
    }
}

fn error_of(result: &Value) -> Option<String> {
    result.get("error").and_then(Value::as_str).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rusqlite::Connection;

    use super::*;
    use crate::tasks::late::tests::{plan, read_model};
    use crate::tasks::schedule::PAUSE_MAX_MS;
    use crate::tasks::simulation::Rng;

    const NOW_MS: u64 = 1_900_000_000_000;
    const MOST: u32 = 7;

    fn name(shard: u32) -> String {
        format!("g1-2026-11-{shard:03}")
    }

    /// Of four shards one is at rest, one has just run, one has not for long, and one is new.
    fn world() -> Connection {
        let world = read_model();
        for shard in 0..60 {
            let sql = "INSERT INTO shards (name, made_at_ms, rests_since_ms) VALUES (?1, 1, ?2)";
            world.execute(sql, (name(shard), (shard % 4 == 0).then_some(1))).unwrap();
            let ran_at_ms = [None, Some(NOW_MS), Some(NOW_MS - 2 * PAUSE_MAX_MS), None][shard as usize % 4];
            if let Some(at_ms) = ran_at_ms {
                let sql = "INSERT INTO runs (task, at_ms, took_ms, result) VALUES (?1, ?2, 1, '{}')";
                world.execute(sql, (format!("place:{}", name(shard)), at_ms.cast_signed())).unwrap();
            }
        }
        world
    }

    fn page(world: &Connection, after: &Turn) -> Page {
        let mut statement = world.prepare_cached(LATE).unwrap();
        let since_ms = (NOW_MS - PAUSE_MAX_MS).cast_signed();
        let values = (since_ms, after.heard_at_ms.cast_signed(), &after.name, MOST);
        let rows = statement.query_map(values, |row| {
            Ok(Late { name: row.get(0)?, heard_at_ms: row.get::<_, i64>(1)?.cast_unsigned() })
        });
        Page::of(rows.unwrap().map(Result::unwrap).collect(), MOST)
    }

    /// The cron as it strikes: some runs are broken off before their page is told, or before it is written down how far they came. Gives which shards
    /// were told in so many of them, and which of these never run, whatever they are told.
    fn told(seed: u64, is_kept: bool) -> BTreeSet<String> {
        let (world, rng) = (world(), Rng::new(seed));
        let (mut after, mut told) = (Turn::default(), BTreeSet::new());
        for _ in 0..40 {
            let Page { shards, next, .. } = page(&world, &after);
            if rng.roll(4) == 0 {
                continue;
            }
            told.extend(shards.iter().map(ShardName::to_string));
            if rng.roll(4) > 0 && is_kept {
                after = next;
            }
        }
        told
    }

    #[test]
    fn each_place_that_is_late_is_told_and_none_at_rest_wherever_the_cron_is_broken_off() {
        let expected: BTreeSet<String> = (0..60).filter(|shard| shard % 4 > 1).map(name).collect();
        for seed in 1..=20 {
            assert_eq!(told(seed, true), expected, "seed {seed}");
        }
        // The control: without the cursor those that never run keep the others from being told.
        assert!((1..=20).all(|seed| told(seed, false).len() <= MOST as usize));
    }

    #[test]
    fn who_has_never_run_is_not_late() {
        let world = world();
        let Page { shards, late, next } = page(&world, &Turn::default());
        assert_eq!((shards.len(), late, next.name.as_str()), (7, 0, "g1-2026-11-027"));
        let after = Turn { heard_at_ms: 1, name: String::new() };
        let Page { shards, late, .. } = page(&world, &after);
        assert_eq!((shards.len(), late), (7, 7));
        // One that was woken begins anew.
        let wakes = "UPDATE shards SET rests_since_ms = ?2 WHERE name = ?1";
        for rests_since_ms in [Some(1), None] {
            world.execute(wakes, (name(2), rests_since_ms)).unwrap();
        }
        assert_eq!(page(&world, &Turn { heard_at_ms: 0, name: name(1) }).shards[0].to_string(), name(2));
    }

    /// However they come, rest, are woken and go.
    #[test]
    fn the_places_that_are_not_at_rest_are_counted() {
        let (world, rng) = (read_model(), Rng::new(5));
        for _ in 0..400 {
            let name = name(rng.roll(30) as u32);
            let rests_since_ms = (rng.roll(2) == 0).then_some(1);
            match rng.roll(3) {
                0 => {
                    let sql = "INSERT INTO shards (name, made_at_ms, rests_since_ms) VALUES (?1, 1, ?2) ON CONFLICT DO NOTHING";
                    world.execute(sql, (&name, rests_since_ms)).unwrap()
                }
                1 => world
                    .execute("UPDATE shards SET rests_since_ms = ?2 WHERE name = ?1", (&name, rests_since_ms))
                    .unwrap(),
                _ => world.execute("DELETE FROM shards WHERE name = ?1", [&name]).unwrap(),
            };
            let sql =
                "SELECT awake - (SELECT count(*) FROM shards WHERE rests_since_ms IS NULL) FROM shard_counts";
            assert_eq!(world.query_row(sql, (), |row| row.get::<_, i64>(0)).unwrap(), 0);
        }
    }

    #[test]
    fn what_is_told_has_an_index() {
        let model = read_model();
        let late = plan(&model, LATE);
        assert!(
            late.iter()
                .any(|step| step
                    .contains("shards_awake_by_heard ((heard_at_ms,name)>(?,?) AND heard_at_ms<?)"))
                && !late.iter().any(|step| step.contains("TEMP B-TREE")),
            "{late:?}"
        );
        let failing = plan(
            &model,
            &format!("SELECT 1 FROM runs INDEXED BY runs_failing_places WHERE {FAILING_PLACES}"),
        );
        assert!(failing.iter().any(|step| step.contains("runs_failing_places")), "{failing:?}");
        assert!(
            plan(&model, &sums_sql()).iter().any(|step| step.contains("runs_telling (task>? AND task<?)"))
        );
    }

    fn sums(world: &Connection) -> BTreeMap<String, Map<String, Value>> {
        let mut statement = world.prepare(&sums_sql()).unwrap();
        let rows = statement.query_map((), |row| {
            Ok(Sum { task: row.get(0)?, name: row.get(1)?, sum: row.get::<_, i64>(2)?.cast_unsigned() })
        });
        by_task(rows.unwrap().map(Result::unwrap).collect())
    }

    #[test]
    fn the_newest_runs_are_added_task_by_task() {
        let world = read_model();
        for (task, result) in [
            (
                "place:D1",
                json!({ "sweep": { "late": 1, "moved": { "moved": 9 } }, "settle": { "written": ["a"] } }),
            ),
            ("place:g1-2026-11-001", json!({ "sweep": { "late": 2 }, "settle": { "lines": 5 } })),
            ("place:g1-2026-11-002", json!({ "error": "sweep: it is down" })),
            ("place:g1-2026-11-003", json!({})),
            ("sweep", json!({ "late": 100 })),
        ] {
            let sql = "INSERT INTO runs (task, at_ms, took_ms, result) VALUES (?1, 1, 1, ?2)";
            world.execute(sql, (task, result.to_string())).unwrap();
        }
        assert_eq!(json!(sums(&world)), json!({ "settle": { "lines": 5 }, "sweep": { "late": 3 } }));
    }

    #[test]
    fn what_fails_in_a_place_is_told_with_its_name() {
        let failing = Failing {
            number: 3,
            places: vec![
                ("g1-2026-11-001".to_owned(), json!({ "error": "it is down" })),
                (
                    "g1-2026-11-002".to_owned(),
                    json!({ "error": "x", "history": { "error": "it is full" }, "sweep": {} }),
                ),
                (
                    D1.to_owned(),
                    json!({ "error": "x", "forget": { "error": "no" }, "sweep": {}, "history": {} }),
                ),
            ],
        };
        let told = |task: &str| {
            let mut result = json!({});
            failing.tell(task, 5, &mut result);
            result
        };
        assert_eq!(
            told("history"),
            json!({ "failed": { "g1-2026-11-001": "it is down", "g1-2026-11-002": "it is full" } })
        );
        let missing = "1 of 4 shards did not answer, or failed (g1-2026-11-001)";
        assert_eq!(told("sweep"), json!({ "missing": missing }));
        assert_eq!(told("forget"), json!({ "error": "no", "missing": missing }));
    }
}
