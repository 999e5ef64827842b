//! The overview's first line: whether an operator has anything to do.

use std::collections::BTreeMap;

use serde_json::Value;

use super::format::duration;

/// How long a scheduled task, which runs every five minutes, may not have run, in ms.
const SILENCE_MAX_MS: u64 = 900_000;
/// How far behind the provider's lists may be read, in ms: three runs and the quiet time.
pub const LAG_MAX_MS: u64 = 1_800_000;

/// For how long a day that is due may have no whole settlement file, in ms: as the alert says.
const SETTLEMENT_LAG_MAX_MS: u64 = 28_800_000;

/// The newest run of a scheduled task.
#[derive(Clone, Debug)]
pub struct TaskHealth {
    /// Its name.
    pub task: String,
    /// How long ago it began, in ms.
    pub age_ms: u64,
    /// It has runs at times of its own, and is here because it has failed.
    pub is_apart: bool,
    /// Why it failed, if it did.
    pub error: Option<String>,
}

impl TaskHealth {
    /// Of what a run said.
    pub fn of(task: &str, age_ms: u64, is_apart: bool, result: &str) -> Self {
        let result: Value = serde_json::from_str(result).unwrap_or_default();
        let error = result.get("error").filter(|error| !error.is_null());
        let error = error.map(|error| error.as_str().map_or_else(|| error.to_string(), str::to_owned));
        Self { task: task.to_owned(), age_ms, is_apart, error }
    }

    /// Whether it has not run for too long.
    const fn is_silent(&self) -> bool {
        self.age_ms > SILENCE_MAX_MS && !self.is_apart
    }
}

/// Which of the scheduled tasks fail, or have not run for too long, and which do not. What has runs of its own counts as the task that sees to it.
pub fn failing(tasks: &[TaskHealth]) -> BTreeMap<&str, bool> {
    let mut failing = BTreeMap::new();
    for health in tasks {
        let name = match health.task.split_once(':') {
            Some(("place", _)) => "places",
            Some((of, _)) => of,
            None => &health.task,
        };
        *failing.entry(name).or_default() |= health.error.is_some() || health.is_silent();
    }
    failing
}

/// What there is to look at now.
#[derive(Clone, Debug, Default)]
pub struct Health {
    /// Open keys whose outcome nobody knows.
    pub unknown: u64,
    /// Open keys whose alarm is late, or that need a person.
    pub late_or_flagged: u64,
    /// Reservations that end within a day.
    pub ending: u64,
    /// Jobs that failed for good.
    pub dead: u64,
    /// Where the provider's books differ from ours.
    pub breaks: u64,
    /// What the gate has passed on that nobody knows the end of.
    pub gate: u64,
    /// How far behind the provider's lists are read, in ms; `None` if none was read yet.
    pub lag_ms: Option<u64>,
    /// For how long the oldest day that is due has had no whole settlement file, in ms.
    pub settlement_behind_ms: u64,
    /// The newest runs of the scheduled tasks; none if none has run yet.
    pub tasks: Vec<TaskHealth>,
}

impl Health {
    /// How long ago a scheduled task ran last, in ms; `None` if none has run yet.
    fn silence_ms(&self) -> Option<u64> {
        self.tasks.iter().map(|task| task.age_ms).min()
    }

    /// What is wrong with the tasks, in sentences.
    fn of_tasks(&self) -> Vec<String> {
        if let Some(ms) = self.silence_ms().filter(|ms| *ms > SILENCE_MAX_MS) {
            return vec![format!("No scheduled task has run for {}", duration(ms))];
        }
        let said = self.tasks.iter().filter_map(|health| match health {
            TaskHealth { task, error: Some(error), .. } => {
                Some(format!("The task {task} has failed: {error}"))
            }
            TaskHealth { task, age_ms, .. } if health.is_silent() => {
                Some(format!("The task {task} has not run for {}", duration(*age_ms)))
            }
            _ => None,
        });
        said.collect()
    }
}

/// What the line says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthSummary {
    /// The short form.
    pub title: String,
    /// What is as it should be, if all is.
    pub text: &'static str,
    /// How it is shown: `warning`, `plain` where not all is known, or nothing where all is well.
    pub tone: &'static str,
    /// What is not, each with the page that shows it; that may be empty.
    pub items: Vec<(String, &'static str)>,
    /// The scheduled tasks do not run: they can be run from here.
    pub wants_run: bool,
}

impl HealthSummary {
    /// Of what there is.
    pub fn of(health: &Health) -> Self {
        let counted = [
            (
                health.unknown,
                "has an unknown outcome",
                "have an unknown outcome",
                "key",
                "/admin/keys?state=unknown",
            ),
            (
                health.late_or_flagged,
                "is late or needs a person",
                "are late or need a person",
                "key",
                "/admin/keys?state=late",
            ),
            (health.dead, "has failed for good", "have failed for good", "job", "/admin/dead-letters"),
            (
                health.breaks,
                "is open: the provider’s records differ from ours",
                "are open: the provider’s records differ from ours",
                "break",
                "/admin/breaks",
            ),
            (
                health.gate,
                "has an unknown outcome: say how it ended",
                "have an unknown outcome: say how they ended",
                "form of the gate",
                "/admin/gate?state=unknown",
            ),
            (
                health.ending,
                "ends within a day: capture it, or the money is free again",
                "end within a day: capture them, or the money is free again",
                "reservation",
                "/admin/payments?status=ending",
            ),
        ];
        let mut items: Vec<(String, &'static str)> = counted
            .into_iter()
            .filter(|(number, ..)| *number > 0)
            .map(|(number, one, more, what, href)| match number {
                1 => (format!("1 {what} {one}"), href),
                _ => (format!("{number} {} {more}", several(what)), href),
            })
            .collect();
        if let Some(ms) = health.lag_ms.filter(|ms| *ms > LAG_MAX_MS) {
            items.push((
                format!("The provider’s lists were read up to {} ago, and not since", duration(ms)),
                "",
            ));
        }
        if health.settlement_behind_ms > SETTLEMENT_LAG_MAX_MS {
            let late = duration(health.settlement_behind_ms);
            items.push((format!("A day’s settlement file is {late} late"), "/admin/settlement"));
        }
        items.extend(health.of_tasks().into_iter().map(|said| (said, "#tasks")));
        let silence_ms = health.silence_ms();
        let never_ran = silence_ms.is_none();
        let (title, tone) = match items.len() {
            0 if never_ran => ("Not checked yet".to_owned(), "plain"),
            0 if health.lag_ms.is_none() => ("Clear so far".to_owned(), "plain"),
            0 => ("All clear".to_owned(), ""),
            1 => ("One thing needs a look".to_owned(), "warning"),
            number => (format!("{number} things need a look"), "warning"),
        };
        let text = match (items.is_empty(), silence_ms, health.lag_ms) {
            (true, Some(_), Some(_)) => "Nothing is unknown, late, failed or unreconciled.",
            (true, Some(_), None) => {
                "Nothing is unknown, late or failed. Nothing was compared with the provider’s records yet."
            }
            (true, None, _) => {
                "No key is unknown and no job has failed. No scheduled task has run yet: what is late, and what the provider’s records say, is not known."
            }
            (false, None, _) => {
                "No scheduled task has run yet: what else is late, and what the provider’s records say, is not known."
            }
            (false, ..) => "",
        };
        let is_silent = silence_ms.is_none_or(|ms| ms > SILENCE_MAX_MS);
        Self { title, text, tone, items, wants_run: is_silent }
    }
}

/// The plural.
fn several(what: &str) -> String {
    what.split_once(' ').map_or_else(|| format!("{what}s"), |(first, rest)| format!("{first}s {rest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(task: &str, age_ms: u64, result: &str) -> TaskHealth {
        TaskHealth::of(task, age_ms, task.contains(':'), result)
    }

    fn well() -> Health {
        Health { lag_ms: Some(600_000), tasks: vec![ran("sweep", 60_000, "{}")], ..Health::default() }
    }

    fn never_ran() -> Health {
        Health { tasks: Vec::new(), ..well() }
    }

    #[test]
    fn all_clear_is_said_only_of_what_is_known() {
        let text = |health| HealthSummary::of(&health).text;
        assert_eq!(text(well()), "Nothing is unknown, late, failed or unreconciled.");
        assert!(text(Health { lag_ms: None, ..well() }).contains("Nothing was compared"));
        assert!(text(never_ran()).contains("No scheduled task has run yet"));
        assert!(text(Health { dead: 1, ..never_ran() }).contains("No scheduled task has run yet"));
        let title = |health| HealthSummary::of(&health).title;
        assert_eq!(title(well()), "All clear");
        assert_eq!(title(Health { lag_ms: None, ..well() }), "Clear so far");
        assert_eq!(title(never_ran()), "Not checked yet");
        let tone = |health| HealthSummary::of(&health).tone;
        let healths = [well(), Health { lag_ms: None, ..well() }, never_ran(), Health { dead: 1, ..well() }];
        assert_eq!(healths.map(tone), ["", "plain", "plain", "warning"]);
        let silent = Health { tasks: vec![ran("sweep", 3_600_000, "{}")], ..well() };
        let wants_run = |health| HealthSummary::of(&health).wants_run;
        assert_eq!([well(), silent, never_ran()].map(wants_run), [false, true, true]);
    }

    #[test]
    fn each_thing_that_is_wrong_is_named_with_its_page() {
        let wrong = [
            (Health { unknown: 1, ..well() }, "1 key has an unknown outcome", "/admin/keys?state=unknown"),
            (
                Health { late_or_flagged: 2, ..well() },
                "2 keys are late or need a person",
                "/admin/keys?state=late",
            ),
            (
                Health { gate: 2, ..well() },
                "2 forms of the gate have an unknown outcome: say how they ended",
                "/admin/gate?state=unknown",
            ),
            (Health { dead: 3, ..well() }, "3 jobs have failed for good", "/admin/dead-letters"),
            (
                Health { lag_ms: Some(7_200_000), ..well() },
                "The provider’s lists were read up to 2 h ago, and not since",
                "",
            ),
            (
                Health { settlement_behind_ms: 36_000_000, ..well() },
                "A day’s settlement file is 10 h late",
                "/admin/settlement",
            ),
            (
                Health {
                    tasks: vec![ran("sweep", 3_600_000, "{}"), ran("settle", 7_200_000, r#"{"error":"x"}"#)],
                    ..well()
                },
                "No scheduled task has run for 1 h",
                "#tasks",
            ),
        ];
        for (health, said, href) in wrong {
            let health = HealthSummary::of(&health);
            assert_eq!((health.title.as_str(), health.text), ("One thing needs a look", ""));
            assert_eq!(health.items, [(said.to_owned(), href)]);
        }
        let of_tasks = HealthSummary::of(&Health {
            tasks: vec![
                ran("sweep", 60_000, r#"{"woken":3,"error":null}"#),
                ran(
                    "settle",
                    60_000,
                    r#"{"error":"D1_ERROR: no such table: settlement_movements: SQLITE_ERROR"}"#,
                ),
                ran("history", 7_200_000, "{}"),
                ran("reconcile:acct_1", 7_200_000, r#"{"error":{"status":401}}"#),
            ],
            ..well()
        });
        let said: Vec<&str> = of_tasks.items.iter().map(|(said, _)| said.as_str()).collect();
        assert_eq!(
            said,
            [
                "The task settle has failed: D1_ERROR: no such table: settlement_movements: SQLITE_ERROR",
                "The task history has not run for 2 h",
                "The task reconcile:acct_1 has failed: {\"status\":401}",
            ]
        );
        assert!(of_tasks.items.iter().all(|(_, href)| *href == "#tasks") && !of_tasks.wants_run);
        let more = HealthSummary::of(&Health { breaks: 1, ending: 1, ..well() });
        assert_eq!((more.title.as_str(), more.items.len()), ("2 things need a look", 2));
    }

    #[test]
    fn a_task_fails_by_its_newest_run_by_its_age_and_by_those_that_have_runs_of_their_own() {
        let tasks = [
            ran("sweep", 60_000, "{}"),
            ran("settle", 60_000, r#"{"error":"no"}"#),
            ran("plots", SILENCE_MAX_MS + 1, "{}"),
            ran("reconcile", 60_000, "{}"),
            ran("reconcile:acct_1", 3_600_000, r#"{"error":"no"}"#),
            ran("places", 60_000, "{}"),
            ran("place:g1-2026-11-003", 60_000, r#"{"error":"no"}"#),
        ];
        let expected =
            [("places", true), ("plots", true), ("reconcile", true), ("settle", true), ("sweep", false)];
        assert_eq!(failing(&tasks), BTreeMap::from(expected));
        assert!(failing(&[ran("place:D1", 60_000, "{}")]).values().all(|is_failing| !is_failing), "control");
    }
}
