//! The overview's first line: whether an operator has anything to do.

use super::format::duration;

/// How long the scheduled tasks, which run every five minutes, may not have run, in ms.
const SILENCE_MAX_MS: u64 = 900_000;
/// How far behind the provider's lists may be read, in ms: three runs and the quiet time.
pub const LAG_MAX_MS: u64 = 1_800_000;

/// What there is to look at now.
#[derive(Clone, Copy, Debug, Default)]
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
    /// How long ago a scheduled task ran last, in ms; `None` if none has run yet.
    pub silence_ms: Option<u64>,
}

/// What the line says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
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

impl Verdict {
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
                "is open: the provider’s books differ from ours",
                "are open: the provider’s books differ from ours",
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
        if let Some(ms) = health.silence_ms.filter(|ms| *ms > SILENCE_MAX_MS) {
            items.push((format!("No scheduled task has run for {}", duration(ms)), "#tasks"));
        }
        let never_ran = health.silence_ms.is_none();
        let title = match items.len() {
            0 if never_ran => "Not checked yet".to_owned(),
            0 if health.lag_ms.is_none() => "Clear so far".to_owned(),
            0 => "All clear".to_owned(),
            1 => "One thing needs a look".to_owned(),
            number => format!("{number} things need a look"),
        };
        let text = match (items.is_empty(), health.silence_ms, health.lag_ms) {
            (true, Some(_), Some(_)) => "Nothing is unknown, late, failed or unreconciled.",
            (true, Some(_), None) => {
                "Nothing is unknown, late or failed. Nothing was compared with the provider’s books yet."
            }
            (true, None, _) => {
                "No key is unknown and no job has failed. No scheduled task has run yet: what is late, and what the provider’s books say, is not known."
            }
            (false, None, _) => {
                "No scheduled task has run yet: what else is late, and what the provider’s books say, is not known."
            }
            (false, ..) => "",
        };
        let tone = match items.len() {
            0 if title == "All clear" => "",
            0 => "plain",
            _ => "warning",
        };
        let is_silent = health.silence_ms.is_none_or(|ms| ms > SILENCE_MAX_MS);
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

    const WELL: Health = Health {
        unknown: 0,
        late_or_flagged: 0,
        ending: 0,
        dead: 0,
        breaks: 0,
        gate: 0,
        lag_ms: Some(600_000),
        silence_ms: Some(60_000),
    };

    #[test]
    fn all_clear_is_said_only_of_what_is_known() {
        let text = |health| Verdict::of(&health).text;
        assert_eq!(text(WELL), "Nothing is unknown, late, failed or unreconciled.");
        assert!(text(Health { lag_ms: None, ..WELL }).contains("Nothing was compared"));
        assert!(text(Health { silence_ms: None, ..WELL }).contains("No scheduled task has run yet"));
        assert!(text(Health { silence_ms: None, dead: 1, ..WELL }).contains("No scheduled task has run yet"));
        let title = |health| Verdict::of(&health).title;
        assert_eq!(title(WELL), "All clear");
        assert_eq!(title(Health { lag_ms: None, ..WELL }), "Clear so far");
        assert_eq!(title(Health { silence_ms: None, ..WELL }), "Not checked yet");
        let tone = |health| Verdict::of(&health).tone;
        let healths = [
            WELL,
            Health { lag_ms: None, ..WELL },
            Health { silence_ms: None, ..WELL },
            Health { dead: 1, ..WELL },
        ];
        assert_eq!(healths.map(tone), ["", "plain", "plain", "warning"]);
        let wants_run = |silence_ms| Verdict::of(&Health { silence_ms, ..WELL }).wants_run;
        assert_eq!([Some(60_000), Some(3_600_000), None].map(wants_run), [false, true, true]);
    }

    #[test]
    fn each_thing_that_is_wrong_is_named_with_its_page() {
        let wrong = [
            (Health { unknown: 1, ..WELL }, "1 key has an unknown outcome", "/admin/keys?state=unknown"),
            (
                Health { late_or_flagged: 2, ..WELL },
                "2 keys are late or need a person",
                "/admin/keys?state=late",
            ),
            (
                Health { gate: 2, ..WELL },
                "2 forms of the gate have an unknown outcome: say how they ended",
                "/admin/gate?state=unknown",
            ),
            (Health { dead: 3, ..WELL }, "3 jobs have failed for good", "/admin/dead-letters"),
            (
                Health { lag_ms: Some(7_200_000), ..WELL },
                "The provider’s lists were read up to 2 h ago, and not since",
                "",
            ),
            (Health { silence_ms: Some(3_600_000), ..WELL }, "No scheduled task has run for 1 h", "#tasks"),
        ];
        for (health, said, href) in wrong {
            let verdict = Verdict::of(&health);
            assert_eq!((verdict.title.as_str(), verdict.text), ("One thing needs a look", ""));
            assert_eq!(verdict.items, [(said.to_owned(), href)]);
        }
        let more = Verdict::of(&Health { breaks: 1, ending: 1, ..WELL });
        assert_eq!((more.title.as_str(), more.items.len()), ("2 things need a look", 2));
    }
}
