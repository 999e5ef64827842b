//! A run of one place of the read model, D1 or a shard, in its own [object](super::task_object): all tasks that belong to the place, one after the
//! other, each for a bounded time. One that fails keeps no other from running, and what it did not finish the next run goes on with.
//!
//! What stands in D1 alone D1's run does: it joins what all places have settled, moves payments into shards, and looks at shards at rest.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use worker::{Env, Error, Result};

use super::counts::Scope;
use super::schedule::Ended;
use super::{counts, history, plots, purge, settlement_job, sweep};
use messages::placement::ShardName;
use runtime::db::Db;
use runtime::http_client::within;
use runtime::{now_ms, places};

/// What waits in a shard, in the result of its run: the desk adds up what all have.
const COUNTS: &str = "counts";
/// How large a shard is, in the result of its run, once it is large.
pub(crate) const BYTES: &str = "bytes";
/// A shard is told of as large from here on, in bytes: half of what it has room for.
const LARGE_BYTES: u64 = 5_000_000_000;
/// How long one task may take. Each begins nothing new much earlier; this is for a place that does not answer.
const TASK_MAX: Duration = Duration::from_secs(140);

/// D1: since when the layout of the shard `?1` counts, which is `?2`; nothing if the shard is at rest.
const AWAKE: &str = "SELECT (SELECT from_ms FROM shard_layouts WHERE layout_id = ?2) AS from_ms FROM shards
     WHERE name = ?1 AND rests_since_ms IS NULL";

/// Plays the tasks of D1, or of a shard. The result has that of each; `None` if there is nothing to do for it any more: the shard is at rest, or shards
/// are not bound.
pub(super) async fn run(env: &Env, shard: Option<&ShardName>) -> Result<Option<(Value, Ended)>> {
    #[derive(Deserialize)]
    struct Awake {
        from_ms: Option<u64>,
    }
    if !places::is_bound(env) {
        return Ok(None);
    }
    let d1 = Db::of(env)?;
    let (db, layout) = match shard {
        None => (d1, None),
        Some(name) => {
            let values = vec![name.to_string().into(), name.layout_id.into()];
            let Some(Awake { from_ms }) = d1.first(AWAKE, values).await? else { return Ok(None) };
            (places::shard(env, name), from_ms.map(|from_ms| (name, from_ms)))
        }
    };
    let mut played = Played::default();
    played.play("sweep", async { sweep::sweep_one(env, &db).await.map(Some) }).await;
    played.play("settle", settlement_job::write_part(env, shard)).await;
    played
        .play("history", async {
            // One whose layout is not known lets nothing leave.
            match shard.is_some() && layout.is_none() {
                true => Ok(None),
                false => history::leave_one(env, layout, &db).await,
            }
        })
        .await;
    played.play("plots", async { plots::sum_one(&db).await.map(Some) }).await;
    played.play("forget", async { purge::purge_one(env, &db).await.map(Some) }).await;
    if shard.is_some() {
        let mut bytes = None;
        let counted = async {
            let (counts, size) = counts::of_place(&db, Scope::All, now_ms()).await?;
            bytes = size;
            Ok(Some(json!(counts)))
        };
        played.play(COUNTS, counted).await;
        played.note_bytes(bytes);
    }
    let is_quiet = shard.is_some() && played.found_nothing() && sweep::is_quiet(&db).await?;
    let (result, ended) = played.ends(is_quiet)?;
    let result = if shard.is_some() { telling(result).unwrap_or_else(|| json!({})) } else { result };
    Ok(Some((result, ended)))
}

/// What is not nothing of a result: of a shard in which nothing was done, and nothing waits, nothing is left. So what all of them say is added up
/// without looking at the quiet ones.
fn telling(result: Value) -> Option<Value> {
    match result {
        Value::Null => None,
        Value::Number(number) => (number.as_u64() != Some(0)).then_some(Value::Number(number)),
        Value::Object(parts) => {
            let parts = parts.into_iter().filter_map(|(name, part)| Some((name, telling(part)?)));
            let parts: Map<String, Value> = parts.collect();
            (!parts.is_empty()).then_some(Value::Object(parts))
        }
        other => Some(other),
    }
}

/// What came of the tasks so far.
#[derive(Default)]
struct Played {
    result: Map<String, Value>,
    done: usize,
    /// The first that went wrong.
    error: Option<String>,
}

impl Played {
    async fn play(&mut self, task: &str, work: impl Future<Output = Result<Option<Value>>>) {
        let outcome = within(TASK_MAX, task, work).await;
        self.note(task, outcome);
    }

    /// `None`: the task is off.
    fn note(&mut self, task: &str, outcome: Result<Option<Value>>) {
        let result = match outcome {
            Ok(None) => return,
            Ok(Some(result)) => {
                self.done += 1;
                // It has gone on, and says what went wrong beside that.
                if let Some(error) = result.get("error").and_then(Value::as_str) {
                    self.error.get_or_insert(format!("{task}: {error}"));
                }
                result
            }
            Err(error) => {
                let error = error.to_string();
                let result = json!({ "error": error });
                self.error.get_or_insert(format!("{task}: {error}"));
                result
            }
        };
        self.result.insert(task.to_owned(), result);
    }

    /// A small shard says nothing of it: what all say is read with each count.
    fn note_bytes(&mut self, bytes: Option<u64>) {
        if let Some(bytes) = bytes.filter(|bytes| *bytes >= LARGE_BYTES) {
            self.result.insert(BYTES.to_owned(), bytes.into());
        }
    }

    /// Whether there was nothing to settle, nothing has left, and all is summed.
    fn found_nothing(&self) -> bool {
        let settle = self.result.get("settle").and_then(Value::as_object);
        let left =
            |task| self.result.get(task).and_then(|of_task| of_task.get("left")).and_then(Value::as_u64);
        self.error.is_none()
            && settle.is_none_or(Map::is_empty)
            && ["history", "plots"].iter().all(|task| left(*task).unwrap_or(0) == 0)
    }

    /// A place in which nothing goes well is asked more rarely; what goes wrong with one task of it holds up no other.
    fn ends(mut self, is_quiet: bool) -> Result<(Value, Ended)> {
        if let Some(error) = self.error {
            if self.done == 0 {
                return Err(Error::RustError(error));
            }
            self.result.insert("error".to_owned(), error.into());
        }
        Ok((Value::Object(self.result), if is_quiet { Ended::Quiet } else { Ended::Done }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tasks that end with these, one after the other.
    fn played(tasks: &[(&str, std::result::Result<Value, &str>)]) -> Played {
        let mut played = Played::default();
        for (task, outcome) in tasks {
            played.note(task, outcome.clone().map(Some).map_err(|error| Error::RustError(error.to_owned())));
        }
        played
    }

    #[test]
    fn a_task_that_fails_keeps_no_other_from_running_and_is_told_of() {
        let down = || Err("it is down");
        let some =
            played(&[("sweep", down()), ("settle", Ok(json!({}))), ("forget", Ok(json!({ "jobs": 2 })))]);
        assert!(!some.found_nothing());
        let (result, ended) = some.ends(false).unwrap();
        assert_eq!(ended, Ended::Done);
        assert_eq!(result["error"], "sweep: it is down");
        assert_eq!(result["sweep"]["error"], "it is down");
        assert_eq!(result["forget"]["jobs"], 2);
        let beside =
            played(&[("sweep", Ok(json!({ "late": 2, "failed": 1, "error": "an object is gone" })))]);
        assert!(!beside.found_nothing());
        let (result, ended) = beside.ends(false).unwrap();
        assert_eq!((ended, &result["error"]), (Ended::Done, &json!("sweep: an object is gone")));
        let all = played(&[("sweep", down()), ("settle", down())]);
        assert_eq!(all.ends(false).unwrap_err().to_string(), "sweep: it is down");
    }

    #[test]
    fn of_a_shard_in_which_there_is_nothing_nothing_is_said() {
        let nothing = json!({ "sweep": { "late": 0, "woken": 0 }, "settle": {}, "counts": { "dead": 0 } });
        assert_eq!(telling(nothing), None);
        let some = json!({ "sweep": { "late": 0, "missing": "x" }, "settle": { "lines": 7, "waits_for": null }, "counts": { "dead": 1 } });
        let expected =
            json!({ "sweep": { "missing": "x" }, "settle": { "lines": 7 }, "counts": { "dead": 1 } });
        assert_eq!(telling(some), Some(expected));
    }

    #[test]
    fn a_shard_says_how_large_it_is_once_it_is_large() {
        let says = |bytes| {
            let mut played = played(&[("sweep", Ok(json!({ "late": 0 })))]);
            played.note_bytes(bytes);
            telling(played.ends(true).unwrap().0)
        };
        assert_eq!([None, Some(4_999_999_999)].map(says), [None, None]);
        assert_eq!(says(Some(7_000_000_000)), Some(json!({ "bytes": 7_000_000_000_u64 })));
    }

    #[test]
    fn a_place_is_quiet_only_where_nothing_was_done() {
        let nothing = [("sweep", Ok(json!({ "late": 0 }))), ("history", Ok(json!({ "left": 0 })))];
        assert!(played(&nothing).found_nothing());
        for done in [
            ("settle", Ok(json!({ "lines": 7 }))),
            ("history", Ok(json!({ "left": 1 }))),
            ("plots", Ok(json!({ "minutes": 9, "left": 1 }))),
        ] {
            assert!(!played(&[nothing[0].clone(), done.clone()]).found_nothing(), "{done:?}");
        }
        assert_eq!(played(&nothing).ends(true).unwrap().1, Ended::Quiet);
    }
}
