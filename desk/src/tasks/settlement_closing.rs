//! Closes a day in slices: fixes which lines its settlement file has. Pure: statements for whoever has the database.
//!
//! A slice is one transaction. It makes the lines of all that moved in a piece of the day and moves the cursor behind that, both only if the
//! cursor stands where the run has seen it. So a run may be broken off anywhere, and several may run at once: of two that make the same slice
//! one does, and the other does nothing. Once the slices have come to the end of the day, what came late has its turn, and the slice that
//! takes the last of it closes the file.
//!
//! Each movement is in one file. A slice comes two hours after what it looks at at the earliest, so it finds all that was in the read model by
//! then; and what comes into it later than an hour after it moved is noted by the database itself, in `settlement_late`. That list is emptied
//! into the next file that is closed. Who is in both is known by the line, which is there once.

use serde::Deserialize;

use super::settlement_file::Day;
use super::settlement_movements::{IS_OWN, KNOWN_SINCE, LATE, Movements, insert, probe};
use runtime::db::{Statement, Value};

/// How far the first file looks back, in ms.
const LATE_MS: u64 = 35 * 86_400_000;

/// The closing of a day, as its row has it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Closing {
    /// The file's name.
    pub name: String,
    /// Such as `2026-11-20`.
    pub day: String,
    /// When the day ends, in ms since the epoch.
    pub ends_ms: u64,
    /// All movements before it have their lines.
    pub through_ms: u64,
    /// How many slices were made.
    pub version: u64,
}

/// Until when a slice goes, if not to the end of the day: the answer to [`Closing::probe`].
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Probed {
    /// Of the first movement that is too many.
    pub until_ms: Option<u64>,
}

/// Begins to close a day, if nobody has. The day before must be closed. Where that was done in slices, all that came late since is noted; else
/// (the first file, or the release before) 35 days are looked through.
pub fn open(day: &Day, part_lines: u64) -> Statement {
    open_as(&day.file_name(), day, part_lines)
}

/// The same under a name of a place's own.
pub fn open_as(name: &str, day: &Day, part_lines: u64) -> Statement {
    begin(name, day, day.ends_at_ms.saturating_sub(LATE_MS), part_lines)
}

/// The same where the bucket has the files of the days before, and nothing is known here of what they hold: nothing that moved before the day
/// gets a line, since it may have one there.
pub fn open_behind(day: &Day, part_lines: u64) -> Statement {
    begin(&day.file_name(), day, day.begins_at_ms(), part_lines)
}

fn begin(name: &str, day: &Day, first_ms: u64, part_lines: u64) -> Statement {
    let sql =
        "INSERT INTO settlement_closings (name, day, begins_ms, ends_ms, through_ms, version, part_lines)
         SELECT ?1, ?2, begins_ms, ?3, begins_ms, 0, ?6 FROM (SELECT CASE WHEN EXISTS (SELECT 1 FROM settlement_closings
            WHERE ends_ms = ?4 AND through_ms = ?4) THEN ?4 ELSE ?5 END AS begins_ms)
         WHERE true ON CONFLICT (name) DO NOTHING";
    let values = vec![
        name.into(),
        day.date.as_str().into(),
        day.ends_at_ms.into(),
        day.begins_at_ms().into(),
        first_ms.into(),
        part_lines.into(),
    ];
    Statement::new(sql, values)
}

/// Fixes of which places the day consists, where there are shards: before D1 begins to close it. A shard that comes later has only what came late
/// of this day, and so has one that is woken later: one at rest has no payments.
pub fn places(day: &Day) -> Statement {
    let sql = "INSERT INTO settlement_places (file, place, day) SELECT ?1, name, ?2 FROM (SELECT '' AS name UNION ALL SELECT name FROM shards WHERE rests_since_ms IS NULL)
         WHERE EXISTS (SELECT 1 FROM shards) AND NOT EXISTS (SELECT 1 FROM settlement_closings WHERE name = ?1)
            AND NOT EXISTS (SELECT 1 FROM settlement_files WHERE name = ?1) ON CONFLICT DO NOTHING";
    Statement::new(sql, vec![day.file_name().into(), day.date.as_str().into()])
}

/// The closing of a file.
pub fn find(name: &str) -> Statement {
    let sql = "SELECT name, day, ends_ms, through_ms, version FROM settlement_closings WHERE name = ?1";
    Statement::new(sql, vec![name.into()])
}

impl Closing {
    /// Whether only what came late is left.
    pub const fn is_through(&self) -> bool {
        self.through_ms >= self.ends_ms
    }

    /// Asks how far a slice goes that has at most so many movements of each kind.
    pub fn probe(&self, most: u32) -> Statement {
        Statement::new(probe(), vec![self.through_ms.into(), self.ends_ms.into(), most.into()])
    }

    /// The next slice, which goes until then, and how the closing stands if its last statement has changed a row. What moved in one millisecond
    /// is in one slice, however much.
    pub fn slice(&self, probed: Probed) -> (Self, [Statement; 3]) {
        let until_ms = probed.until_ms.unwrap_or(self.ends_ms);
        let until_ms = until_ms.max(self.through_ms.saturating_add(1)).min(self.ends_ms);
        let values = || self.values(vec![self.through_ms.into(), until_ms.into()]);
        let [captures, others] = insert(Movements::InTime).map(|sql| Statement::new(sql, values()));
        let next = Self { through_ms: until_ms, version: self.version.saturating_add(1), ..self.clone() };
        (next, [captures, others, self.moved(until_ms)])
    }

    /// At most so many of what came late, after the last slice of time. Closes the file at `now_ms` if nothing of it is left.
    pub fn late(&self, most: u32, now_ms: u64) -> [Statement; 6] {
        let bounds = || vec![most.into(), self.ends_ms.into()];
        let [captures, others] =
            insert(Movements::Late).map(|sql| Statement::new(sql, self.values(bounds())));
        let told = {
            let mut values = self.values(bounds());
            values.push(now_ms.into());
            Statement::new(too_late(), values)
        };
        let taken = format!(
            "DELETE FROM settlement_late WHERE (at_ms, object, audit_id) IN (SELECT at_ms, object, audit_id FROM ({LATE})) AND {IS_OWN}"
        );
        let closed = "INSERT INTO settlement_files (name, day, closed_at_ms) SELECT name, day, ?3 FROM settlement_closings
             WHERE name = ?1 AND version = ?2 AND NOT EXISTS (SELECT 1 FROM settlement_late WHERE at_ms < ?4) ON CONFLICT DO NOTHING";
        [
            captures,
            others,
            told,
            Statement::new(taken, self.values(bounds())),
            Statement::new(
                closed,
                vec![self.name.as_str().into(), self.version.into(), now_ms.into(), self.ends_ms.into()],
            ),
            self.moved(self.ends_ms),
        ]
    }

    /// The file, these two, and the version.
    fn values(&self, bounds: Vec<Value>) -> Vec<Value> {
        let mut values = vec![self.name.as_str().into()];
        values.extend(bounds);
        values.push(self.version.into());
        values
    }

    fn moved(&self, through_ms: u64) -> Statement {
        let sql = "UPDATE settlement_closings SET through_ms = ?3, version = version + 1 WHERE name = ?1 AND version = ?2";
        Statement::new(sql, vec![self.name.as_str().into(), self.version.into(), through_ms.into()])
    }
}

/// A break for an operator, at `?5`: what came so late that no file here says whether it had its line. One for all that are taken at once.
fn too_late() -> String {
    let day = |at: &str| format!("date({at} / 1000, 'unixepoch')");
    let (first, last) = (day("min(at_ms)"), day("max(at_ms)"));
    format!(
        "INSERT INTO breaks (break_id, kind, provider, resource, ours, theirs, state, note, first_seen_at_ms, last_seen_at_ms)
         SELECT 'settlement:late:' || ?1 || ':' || ?4, 'settlement', 'bank', min(subject), count(*) || ' movements',
            'in no settlement file', 'open',
            'moved from ' || {first} || ' to ' || {last} || ', before the first file that is known here, and came now: ' ||
            'look in the bank''s files of these days, settle by hand what is in none, then accept this', ?5, ?5
         FROM ({LATE}) late WHERE at_ms < {KNOWN_SINCE} AND {IS_OWN}
            AND NOT EXISTS (SELECT 1 FROM settlement_lines line WHERE line.line_id > late.subject || ':'
                AND line.line_id < late.subject || ';' AND line.at_ms = late.at_ms)
         HAVING count(*) > 0 ON CONFLICT (break_id) DO NOTHING"
    )
}
