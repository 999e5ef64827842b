//! Books the lines of one acknowledgement of the bank's, each by the place that has our line.
//!
//! - D1 is asked first, then the shards: the mover writes a line into its shard before it deletes it in D1, so it is seen in one of them.
//! - A line that a shard has written names it: only that one is asked. It has its lines for good, also at rest.
//! - A line that names no place and is not in D1 was written by a release before, or by D1, and is moved since: all shards are asked for these, those of
//!   the newest periods first, some in each run. Only what is in none of them is unknown.
//! - A shard that does not answer holds up its own lines, and those that may be there. All others are booked.
//!
//! What is found is booked at once, and how far the search has come stands in D1: a run may be broken off anywhere, and two may run at once.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use worker::Result;

use super::break_texts::amount_sql;
use super::settlement_file::Acknowledgement;
use messages::placement::ShardName;
use runtime::db::Statement;

/// How many lines are booked at once.
const LINES_MAX: usize = 5_000;
/// How many shards are asked before it is written down what was found.
const STEP: usize = 60;
/// Behind how many shards that do not answer a search goes on.
const MISSED_MAX: usize = 100;
/// Of how many of these the result has the names.
const NAMED_MAX: usize = 3;
/// How many shards one run asks, for all files, and for how long it begins with others, in ms.
const REQUESTS_MAX: usize = 1_000;
const RAN_MAX_MS: u64 = 60_000;

/// The places of the read model, as the import needs them.
pub(super) trait Places {
    /// In ms since the epoch.
    fn now_ms(&self) -> u64;
    /// Whether there may be shards.
    fn are_many(&self) -> bool;
    /// What a statement gives in D1.
    async fn rows<T: DeserializeOwned>(&self, statement: Statement) -> Result<Vec<T>>;
    /// Runs all of these in D1, or none. Gives how many rows each has changed.
    async fn batch(&self, statements: Vec<Statement>) -> Result<Vec<usize>>;
    /// What each of these shards answers to its statement; nothing of one that does not.
    async fn ask<T: DeserializeOwned>(
        &self,
        questions: BTreeMap<String, Rc<Statement>>,
    ) -> Result<BTreeMap<String, Vec<T>>>;
}

/// What a run may still do.
pub(super) struct RunLimits {
    pub(super) requests: usize,
    pub(super) until_ms: u64,
}

impl RunLimits {
    pub(super) fn begin(now_ms: u64) -> Self {
        Self { requests: REQUESTS_MAX, until_ms: now_ms.saturating_add(RAN_MAX_MS) }
    }

    /// How many shards may be asked now.
    fn step(&self, now_ms: u64) -> usize {
        if now_ms < self.until_ms { self.requests.min(STEP) } else { 0 }
    }

    /// Whether another file may be begun.
    pub(super) fn may_go_on(&self, now_ms: u64) -> bool {
        self.step(now_ms) > 0
    }
}

/// A file of lines.
#[derive(Clone, Copy)]
pub(super) struct File<'a> {
    /// What it is called.
    pub(super) name: &'a str,
    /// The same for the same bytes.
    pub(super) content: &'a str,
    pub(super) lines: &'a [Acknowledgement],
}

/// What came of a file so far.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Outcome {
    /// How many lines were booked how.
    pub(super) counts: BTreeMap<String, u64>,
    /// How many are not decided.
    pub(super) left: u64,
    /// Which shards did not answer: some of them.
    pub(super) silent: Vec<String>,
    /// The shard that was asked last in a search that is under way.
    pub(super) searched_to: Option<String>,
}

impl Outcome {
    /// As the run says it.
    pub(super) fn told(&self) -> Value {
        let mut told = json!(self.counts);
        let others = [
            ("left", (self.left > 0).then(|| json!(self.left))),
            ("waits_for", (!self.silent.is_empty()).then(|| json!(self.silent))),
            ("searched_to", self.searched_to.as_ref().map(|shard| json!(shard))),
        ];
        if let Some(told) = told.as_object_mut() {
            told.extend(others.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
        }
        told
    }
}

/// Our line, as a place has it.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Ours {
    line_id: String,
    amount_minor: u64,
    currency: String,
}

/// A line of the bank's, with ours.
#[derive(Serialize)]
struct Acknowledged<'a> {
    #[serde(flatten)]
    line: &'a Acknowledgement,
    ours: Option<&'a Ours>,
}

/// How far a search has come, as its row has it.
#[derive(Clone, Deserialize)]
struct Search {
    after: Option<String>,
    missed: String,
}

/// Goes on with a file, as far as this run goes. A repeated import changes nothing.
pub(super) async fn book(places: &impl Places, limits: &mut RunLimits, file: File<'_>) -> Result<Outcome> {
    let mut booking = Booking::begin(places, file).await?;
    booking.in_d1().await?;
    if places.are_many() {
        booking.where_they_are_named(limits).await?;
        booking.anywhere(limits).await?;
    } else {
        booking.decide(&BTreeMap::new(), |_| true, Vec::new()).await?;
    }
    booking.ends().await
}

struct Booking<'a, P> {
    places: &'a P,
    file: File<'a>,
    /// Those that are not decided.
    open: Vec<&'a Acknowledgement>,
    /// Those of them that their shard may have.
    named: BTreeMap<String, Vec<&'a str>>,
    silent: BTreeSet<String>,
    searched_to: Option<String>,
}

impl<'a, P: Places> Booking<'a, P> {
    async fn begin(places: &'a P, file: File<'a>) -> Result<Self> {
        #[derive(Deserialize)]
        struct Decided {
            line_number: u32,
        }
        let sql = format!("SELECT line_number FROM settlement_answers WHERE {OWN}");
        let decided: Vec<Decided> =
            places.rows(Statement::new(sql.as_str(), vec![file.content.into()])).await?;
        let decided: BTreeSet<u32> = decided.into_iter().map(|one| one.line_number).collect();
        let open = file.lines.iter().filter(|line| !decided.contains(&line.line_number)).collect();
        let (named, silent) = (BTreeMap::new(), BTreeSet::new());
        Ok(Self { places, file, open, named, silent, searched_to: None })
    }

    async fn in_d1(&mut self) -> Result<()> {
        if self.open.is_empty() {
            return Ok(());
        }
        let found = by_id(self.places.rows(find(self.open.iter().copied())?).await?);
        self.decide(&found, |_| false, Vec::new()).await
    }

    /// Asks the shards that lines name, others first each time: some may not answer.
    async fn where_they_are_named(&mut self, limits: &mut RunLimits) -> Result<()> {
        #[derive(Deserialize)]
        struct Known {
            name: String,
        }
        let names: BTreeSet<String> =
            self.open.iter().filter_map(|line| line.place.as_ref()).map(ShardName::to_string).collect();
        if names.is_empty() {
            return Ok(());
        }
        // Nobody else's word makes a shard.
        let sql = "SELECT name FROM shards WHERE name IN (SELECT value FROM json_each(?1))";
        let known: Vec<Known> =
            self.places.rows(Statement::new(sql, vec![serde_json::to_string(&names)?.into()])).await?;
        self.named = known.into_iter().map(|known| (known.name, Vec::new())).collect();
        for line in &self.open {
            let place = line.place.as_ref().map(ShardName::to_string);
            if let Some(lines) = place.and_then(|place| self.named.get_mut(&place)) {
                lines.push(&line.reference);
            }
        }
        let names: Vec<String> = self.named.keys().cloned().collect();
        let first = self.places.now_ms().checked_rem(u64::try_from(names.len()).unwrap_or(1)).unwrap_or(0);
        let mut left =
            names.iter().cycle().skip(usize::try_from(first).unwrap_or(0)).take(names.len()).peekable();
        while left.peek().is_some() {
            let step = limits.step(self.places.now_ms());
            if step == 0 {
                break;
            }
            let mut questions = BTreeMap::new();
            for name in left.by_ref().take(step) {
                let lines = self.named.get(name).map(Vec::as_slice).unwrap_or_default();
                questions.insert(name.clone(), Rc::new(find_ids(lines)?));
            }
            let (answered, found) = self.ask(limits, questions).await?;
            let is_there = |line: &Acknowledgement| {
                line.place.as_ref().is_some_and(|place| answered.contains(&place.to_string()))
            };
            self.decide(&found, is_there, Vec::new()).await?;
        }
        Ok(())
    }

    /// Goes on looking for the others in all shards.
    async fn anywhere(&mut self, limits: &mut RunLimits) -> Result<()> {
        if self.unplaced().next().is_none() {
            return Ok(());
        }
        let mut search = self.search().await?;
        self.searched_to = search.after.clone().filter(|after| !after.is_empty());
        let mut missed: Vec<String> = serde_json::from_str(&search.missed)?;
        // Those that did not answer are asked again first.
        let mut again = missed.clone();
        loop {
            let step = limits.step(self.places.now_ms());
            if step == 0 {
                return Ok(());
            }
            let after = search.after.clone().unwrap_or_default();
            let (shards, is_again) = match again.is_empty() {
                false => (again.split_off(again.len().saturating_sub(step)), true),
                true => (self.shards_behind(&after, step).await?, false),
            };
            if shards.is_empty() {
                break;
            }
            let question = Rc::new(find(self.unplaced())?);
            let questions = shards.iter().map(|name| (name.clone(), Rc::clone(&question))).collect();
            let (answered, found) = self.ask(limits, questions).await?;
            missed.retain(|name| !answered.contains(name));
            let silent = shards.iter().filter(|name| !answered.contains(*name));
            missed.extend(silent.filter(|_| !is_again).cloned());
            let may_go_on = missed.len() <= MISSED_MAX;
            let next = Search {
                after: match shards.last() {
                    Some(last) if !is_again && may_go_on => Some(last.clone()),
                    _ => search.after.clone(),
                },
                missed: match is_again || may_go_on {
                    true => serde_json::to_string(&missed)?,
                    false => search.missed.clone(),
                },
            };
            self.decide(&found, |_| false, vec![self.moved(&search, &next)]).await?;
            self.searched_to = next.after.clone().filter(|after| !after.is_empty());
            if !may_go_on || self.unplaced().next().is_none() {
                return Ok(());
            }
            search = next;
        }
        if missed.is_empty() {
            // All shards have said that they do not have these.
            let named = self.named.clone();
            self.decide(&BTreeMap::new(), |line| !is_named(&named, line), Vec::new()).await?;
        }
        Ok(())
    }

    /// The lines that name no shard that there is.
    fn unplaced(&self) -> impl Iterator<Item = &'a Acknowledgement> {
        self.open.iter().copied().filter(|line| !is_named(&self.named, line))
    }

    async fn ask(
        &mut self,
        limits: &mut RunLimits,
        questions: BTreeMap<String, Rc<Statement>>,
    ) -> Result<(BTreeSet<String>, BTreeMap<String, Ours>)> {
        limits.requests = limits.requests.saturating_sub(questions.len());
        let names: Vec<String> = questions.keys().cloned().collect();
        let answers: BTreeMap<String, Vec<Ours>> = self.places.ask(questions).await?;
        self.silent.extend(names.into_iter().filter(|name| !answers.contains_key(name)));
        let answered = answers.keys().cloned().collect();
        Ok((answered, by_id(answers.into_values().flatten().collect())))
    }

    /// The next shards of all that there are, also those at rest.
    async fn shards_behind(&self, after: &str, most: usize) -> Result<Vec<String>> {
        #[derive(Deserialize)]
        struct Row {
            name: String,
        }
        let period = ShardName::parse(after).map_or_else(|| "~".to_owned(), |shard| shard.period);
        let most = u64::try_from(most).unwrap_or(u64::MAX);
        let values = vec![period.into(), after.into(), most.into()];
        let rows: Vec<Row> = self.places.rows(Statement::new(BEHIND, values)).await?;
        Ok(rows.into_iter().map(|row| row.name).collect())
    }

    /// How far the search has come: before it begins D1 was asked.
    async fn search(&self) -> Result<Search> {
        let key = || vec![self.file.name.into(), self.file.content.into()];
        let begun =
            "INSERT INTO answers_unfinished (name, content, after, looked_at_ms) VALUES (?1, ?2, '', ?3)
             ON CONFLICT (name, content) DO UPDATE SET after = '', missed = '[]' WHERE after IS NULL";
        let mut values = key();
        values.push(self.places.now_ms().into());
        self.places.batch(vec![Statement::new(begun, values)]).await?;
        let sql = "SELECT after, missed FROM answers_unfinished WHERE name = ?1 AND content = ?2";
        let rows: Vec<Search> = self.places.rows(Statement::new(sql, key())).await?;
        Ok(rows.into_iter().next().unwrap_or(Search { after: None, missed: "[]".to_owned() }))
    }

    /// It has come so far, if no other run has come further.
    fn moved(&self, from: &Search, to: &Search) -> Statement {
        let sql = "UPDATE answers_unfinished SET after = ?3, missed = ?4
             WHERE name = ?1 AND content = ?2 AND after IS ?5 AND missed = ?6";
        let values = vec![
            self.file.name.into(),
            self.file.content.into(),
            to.after.clone().into(),
            to.missed.as_str().into(),
            from.after.clone().into(),
            from.missed.as_str().into(),
        ];
        Statement::new(sql, values)
    }

    /// Books the lines of which ours was found, and those that are unknown as such; with other statements, all together or some of them.
    async fn decide(
        &mut self,
        found: &BTreeMap<String, Ours>,
        is_unknown: impl Fn(&Acknowledgement) -> bool,
        others: Vec<Statement>,
    ) -> Result<()> {
        let now_ms = self.places.now_ms();
        let (decided, open): (Vec<_>, Vec<_>) = std::mem::take(&mut self.open)
            .into_iter()
            .partition(|line| found.contains_key(&line.reference) || is_unknown(line));
        self.open = open;
        let mut others = Some(others);
        let mut chunks = decided.chunks(LINES_MAX).peekable();
        loop {
            let mut statements = Vec::new();
            if let Some(chunk) = chunks.next() {
                let lines: Vec<_> = chunk
                    .iter()
                    .map(|line| Acknowledged { line, ours: found.get(&line.reference) })
                    .collect();
                let lines = serde_json::to_string(&lines)?;
                let values =
                    vec![self.file.content.into(), self.file.name.into(), lines.into(), now_ms.into()];
                statements.push(Statement::new(BOOK, values));
            }
            // Behind the last lines: how far a search has come counts once they are booked.
            let is_last = chunks.peek().is_none();
            if is_last {
                statements.extend(others.take().unwrap_or_default());
            }
            if !statements.is_empty() {
                self.places.batch(statements).await?;
            }
            if is_last {
                return Ok(());
            }
        }
    }

    /// Tells operators of what is not as it should be, and says what came of all.
    async fn ends(self) -> Result<Outcome> {
        #[derive(Deserialize)]
        struct Count {
            booked: String,
            lines: u64,
        }
        let content = || vec![self.file.content.into()];
        let now_ms = self.places.now_ms();
        let said = amount_sql("outcome", "amount_minor", "currency", None);
        let broken = format!(
            "INSERT INTO breaks (break_id, kind, provider, resource, theirs, state, note, first_seen_at_ms, last_seen_at_ms)
             SELECT 'settlement:bank:' || line_id, 'settlement', 'bank', reference,
                {said}, 'open',
                CASE booked WHEN 'booked' THEN 'rejected by the bank' ELSE booked END || ', line ' || line_number || ' of ' || file,
                ?2, ?2
             FROM settlement_answers WHERE {OWN} AND (booked <> 'booked' OR outcome = 'rejected') ON CONFLICT (break_id) DO NOTHING"
        );
        let (state, values) = match self.open.is_empty() {
            true => {
                let sql = "DELETE FROM answers_unfinished WHERE name = ?1 AND content = ?2";
                (sql, vec![self.file.name.into(), self.file.content.into()])
            }
            false => {
                let sql = "INSERT INTO answers_unfinished (name, content, looked_at_ms) VALUES (?1, ?2, ?3)
                     ON CONFLICT (name, content) DO UPDATE SET looked_at_ms = excluded.looked_at_ms";
                (sql, vec![self.file.name.into(), self.file.content.into(), now_ms.into()])
            }
        };
        let mut told = content();
        told.push(now_ms.into());
        let statements = vec![Statement::new(broken.as_str(), told), Statement::new(state, values)];
        self.places.batch(statements).await?;
        let sql =
            format!("SELECT booked, count(*) AS lines FROM settlement_answers WHERE {OWN} GROUP BY booked");
        let counts: Vec<Count> = self.places.rows(Statement::new(sql.as_str(), content())).await?;
        let left = u64::try_from(self.open.len()).unwrap_or(u64::MAX);
        Ok(Outcome {
            counts: counts.into_iter().map(|count| (count.booked, count.lines)).collect(),
            left,
            silent: self.silent.into_iter().take(NAMED_MAX).collect(),
            searched_to: self.searched_to.filter(|_| left > 0),
        })
    }
}

fn is_named(named: &BTreeMap<String, Vec<&str>>, line: &Acknowledgement) -> bool {
    line.place.as_ref().is_some_and(|place| named.contains_key(&place.to_string()))
}

fn by_id(lines: Vec<Ours>) -> BTreeMap<String, Ours> {
    lines.into_iter().map(|line| (line.line_id.clone(), line)).collect()
}

fn find<'a>(lines: impl Iterator<Item = &'a Acknowledgement>) -> serde_json::Result<Statement> {
    find_ids(&lines.map(|line| line.reference.as_str()).collect::<Vec<_>>())
}

fn find_ids(line_ids: &[&str]) -> serde_json::Result<Statement> {
    let sql = "SELECT line_id, amount_minor, currency FROM settlement_lines WHERE line_id IN (SELECT value FROM json_each(?1))";
    Ok(Statement::new(sql, vec![serde_json::to_string(line_ids)?.into()]))
}

/// The lines of the file `?1`.
const OWN: &str = "line_id >= ?1 || '#' AND line_id < ?1 || '$'";

/// All shards behind the one of the period `?1` that is called `?2`, those of the newest periods first.
const BEHIND: &str = "SELECT name FROM shards INDEXED BY shards_by_time WHERE (period, name) < (?1, ?2)
     ORDER BY period DESC, name DESC LIMIT ?3";

/// Books many lines: of those that match a line of ours, only the first one ever.
const BOOK: &str = "INSERT INTO settlement_answers (line_id, file, line_number, reference, amount_minor, currency, outcome, booked,
        imported_at_ms)
     SELECT ?1 || '#' || number, ?2, number, reference, amount_minor, currency, outcome,
        CASE WHEN fits IS NULL THEN 'unknown'
             WHEN EXISTS (SELECT 1 FROM settlement_answers known
                WHERE known.reference = line.reference AND known.booked = 'booked') THEN 'duplicate'
             WHEN NOT fits THEN 'differs'
             WHEN row_number() OVER (PARTITION BY reference, fits ORDER BY number) > 1 THEN 'duplicate'
             ELSE 'booked' END, ?4
     FROM (SELECT value->>'line_number' AS number, value->>'reference' AS reference,
            value->>'amount_minor' AS amount_minor, value->>'currency' AS currency, value->>'outcome' AS outcome,
            value->>'$.ours.amount_minor' = value->>'amount_minor'
                AND value->>'$.ours.currency' = value->>'currency' AS fits
        FROM json_each(?3)) line
     WHERE true ORDER BY number ON CONFLICT (line_id) DO NOTHING";
