//! The state of an object in SQLite: one row that holds all of it as text, with the newest lines of the timeline beside it.
//!
//! ```text
//! timeline   id 0     state: keys, resource, calls, jobs, as JSON
//!                     lines: what happened in the newest commits; facts: what the flow has written down in them
//!            id 1…    lines and facts of commits before these, oldest first
//! ```
//!
//! So a commit most often writes one row. What it adds stays beside the state while that is short (8 KB), and then goes into a row of its own.
//!
//! [`Store::transaction`] reads the state, lets a pure function change it, and writes what it became together with the alarm:
//! all of it, or nothing. The row is the truth. What an incarnation remembers of it is used only while the row still says the same.
//! Replays alone are counted in memory, see [`once::replays`].
//!
//! A release that kept an object in tables of its own gives [`Adopt`], which reads them. They are converted when the object
//! is touched first.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use once::alarm::{KnownAlarm, alarm_to_set};
use once::context::{Bug, Context};
use once::flow::Flow;
use once::id::{ObjectId, RequestId};
use once::object_state::{ObjectState, TimelineEntry};
use once::replays::Replays;
use once::state;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::beside::Beside;
use super::storage::{Row, SqlValue, Storage};

/// The lines of the timeline that are kept: the first ones and the newest.
const LINES_FIRST: usize = 50;
const LINES_NEWEST: usize = 150;
const LINES_MAX: usize = LINES_FIRST + LINES_NEWEST;

/// The state with what is beside it; and the same where that goes into a row of its own.
const TOGETHER: &str = "INSERT OR REPLACE INTO timeline (id, state, lines, facts) VALUES (0, ?, ?, ?)";
const APART: &str =
    "INSERT OR REPLACE INTO timeline (id, state, lines, facts) VALUES (0, ?, NULL, NULL), (NULL, NULL, ?, ?)";
/// What reads the state; and with it what is beside it, which a commit adds to.
const READ: &str = "SELECT state AS text FROM timeline WHERE id = 0";
const READ_ALL: &str = "SELECT state AS text, lines, facts FROM timeline WHERE id = 0";
/// The table if it is there, or else another one that is: where there is none nothing was ever written.
const MADE: &str =
    "SELECT sql AS text FROM sqlite_master WHERE type = 'table' ORDER BY name = 'timeline' DESC LIMIT 1";
/// The state alone.
const STATE: &str = "UPDATE timeline SET state = ? WHERE id = 0";

/// The only table. Older releases of Paid Once made one of this name, too, after others: one that is rolled back to fails when it makes its tables,
/// and begins nothing anew.
const TABLE: &str =
    "CREATE TABLE timeline (id INTEGER PRIMARY KEY, state TEXT, lines TEXT, facts TEXT) STRICT";

/// Reads what a release of before has left in tables of its own: `None` if it left nothing.
pub type Adopt<F, S> = fn(&S, ObjectId) -> Result<Option<Adopted<F>>, Bug>;

/// What a release of before has left.
#[derive(Debug)]
pub struct Adopted<F: Flow> {
    /// The state.
    pub object_state: ObjectState<F>,
    /// The timeline, oldest line first.
    pub lines: Vec<TimelineEntry>,
    /// What the flow had written down, oldest first, as the facts of a commit each.
    pub facts: Vec<serde_json::Value>,
    /// The tables, to be dropped in this order.
    pub tables: Vec<String>,
}

/// What a host adds to a store.
#[derive(Debug)]
pub struct Hooks<F: Flow, S> {
    /// How objects of older releases are read.
    pub adopt: Adopt<F, S>,
    /// A transaction was committed: the rows before it and after.
    pub committed: fn(&ObjectState<F>, &ObjectState<F>),
}

impl<F: Flow, S> Default for Hooks<F, S> {
    fn default() -> Self {
        Self { adopt: |_, _| Ok(None), committed: |_, _| {} }
    }
}

/// A key was to begin with which the state could not be read again. Nothing was stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable(pub Bug);

/// The state as it was read or written last, and the text of it.
struct Remembered<F: Flow> {
    text: String,
    lines: u32,
    object_state: Rc<ObjectState<F>>,
}

/// The state, and what stands beside it.
type Loaded<F> = (Rc<Remembered<F>>, Beside);

impl<F: Flow> Clone for Remembered<F> {
    fn clone(&self) -> Self {
        Self { text: self.text.clone(), lines: self.lines, object_state: Rc::clone(&self.object_state) }
    }
}

/// Is called with the rows before a commit and after it.
type OnCommit<F> = Box<dyn Fn(&ObjectState<F>, &ObjectState<F>)>;

/// An object's state and its alarm, as one incarnation of it sees them.
pub struct Store<F: Flow, S> {
    object: ObjectId,
    storage: S,
    hooks: Hooks<F, S>,
    /// Whether a state exists; `None` until this incarnation has looked.
    ready: Cell<Option<bool>>,
    remembered: RefCell<Option<Rc<Remembered<F>>>>,
    /// What no commit has written yet.
    replays: RefCell<Replays>,
    /// What this incarnation knows about the alarm.
    alarm: Cell<KnownAlarm>,
    /// Who is told of each commit.
    on_commit: RefCell<Option<OnCommit<F>>>,
}

impl<F: Flow, S: Storage> Store<F, S> {
    /// Opens the storage of an object. Nothing is written yet.
    pub fn new(object: ObjectId, storage: S, hooks: Hooks<F, S>) -> Self {
        Self {
            object,
            storage,
            hooks,
            ready: Cell::new(None),
            remembered: RefCell::new(None),
            replays: RefCell::default(),
            alarm: Cell::new(KnownAlarm::Unknown),
            on_commit: RefCell::new(None),
        }
    }

    /// `told` is called after each commit, with the rows before it and after.
    pub(crate) fn on_committed(&self, told: impl Fn(&ObjectState<F>, &ObjectState<F>) + 'static) {
        self.on_commit.replace(Some(Box::new(told)));
    }

    /// The object whose storage it is.
    pub const fn object(&self) -> ObjectId {
        self.object
    }

    /// Where it is kept.
    pub const fn storage(&self) -> &S {
        &self.storage
    }

    /// One atomic phase. If `change` fails nothing is stored, and its error is given back.
    pub fn transaction<T, E: From<Bug>>(
        &self,
        ctx: &Context<F::Settings>,
        change: impl FnOnce(&mut ObjectState<F>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.begin(ctx, change)?.map_err(|Unreadable(bug)| bug.into())
    }

    /// The same where a client's request may begin: whoever made it is told where what it holds could not be read again.
    pub fn begin<T, E: From<Bug>>(
        &self,
        ctx: &Context<F::Settings>,
        change: impl FnOnce(&mut ObjectState<F>) -> Result<T, E>,
    ) -> Result<Result<T, Unreadable>, E> {
        let (before, beside) = self.load_all()?.unzip();
        let before_state = before
            .as_ref()
            .map_or_else(|| Rc::new(ObjectState::empty(self.object)), |it| Rc::clone(&it.object_state));
        let mut after = ObjectState::clone(&before_state);
        let value = change(&mut after)?;
        let committed =
            self.commit((before.as_deref(), beside.unwrap_or_default()), &before_state, after, ctx)?;
        Ok(committed.map(|()| value))
    }

    /// The rows as they are. `None` if nothing was ever written.
    pub fn read(&self) -> Result<Option<Rc<ObjectState<F>>>, Bug> {
        Ok(self.load()?.map(|it| Rc::clone(&it.object_state)))
    }

    /// The same, with the replays that are not written yet: for people.
    pub fn read_counted(&self) -> Result<Option<ObjectState<F>>, Bug> {
        let Some(object_state) = self.read()? else { return Ok(None) };
        let mut object_state = ObjectState::clone(&object_state);
        self.replays.borrow().add_to(&mut object_state);
        Ok(Some(object_state))
    }

    /// The rows as they were read or written last, or else as they are: enough to see whether there is something to do. Who does it reads them.
    pub fn known(&self) -> Result<Option<Rc<ObjectState<F>>>, Bug> {
        self.remembered().map_or_else(|| self.read(), |known| Ok(Some(known)))
    }

    /// The rows as they were read or written last: enough for what only counts.
    pub fn remembered(&self) -> Option<Rc<ObjectState<F>>> {
        self.remembered.borrow().as_ref().map(|it| Rc::clone(&it.object_state))
    }

    /// A request was given the response of another one: that is counted, and most often nothing is written. Whether it was not counted before.
    pub fn replayed(
        &self,
        key_id: u32,
        request: &RequestId,
        ctx: &Context<F::Settings>,
    ) -> Result<bool, Bug> {
        let Some(object_state) = self.remembered() else { return Ok(true) };
        let is_new = self.replays.borrow_mut().count(&object_state, key_id, request, ctx.now_ms);
        if self.replays.borrow().is_due() {
            self.transaction(ctx, |_| Ok::<_, Bug>(()))?;
        }
        Ok(is_new)
    }

    /// What a request that changes nothing owes the alarm: an incarnation that does not know of it sets it, if something is due.
    pub fn ensure_alarm(&self, object_state: &ObjectState<F>, ctx: &Context<F::Settings>) -> Result<(), Bug> {
        alarm_to_set(object_state, object_state, self.alarm.get(), ctx)
            .map_or(Ok(()), |at_ms| self.set_alarm(at_ms))
    }

    /// The timeline of all keys, oldest line first.
    pub fn timeline(&self) -> Result<Vec<TimelineEntry>, Bug> {
        if !self.is_ready()? {
            return Ok(Vec::new());
        }
        let mut timeline = Vec::new();
        for row in self.lines()? {
            timeline.extend(state::parsed::<Vec<TimelineEntry>>(&row.lines)?);
        }
        timeline.extend_from_slice(self.replays.borrow().lines());
        Ok(timeline)
    }

    /// Rows of what the flow has written down. `select` reads them from the table `timeline`, whose column `facts` has the facts
    /// of some commits as JSON; the newest are in the row 0. Empty if nothing was ever written.
    pub fn facts<T: DeserializeOwned>(&self, select: &str, bindings: Vec<SqlValue>) -> Result<Vec<T>, Bug> {
        if !self.is_ready()? {
            return Ok(Vec::new());
        }
        self.storage.query(select, bindings)
    }

    /// What the flow has written down in the newest commits, as JSON. What it has in commits before these stands apart.
    pub fn newest_facts(&self) -> Result<Option<String>, Bug> {
        if !self.is_ready()? {
            return Ok(None);
        }
        self.storage.text("SELECT coalesce(facts, '{}') AS text FROM timeline WHERE id = 0")
    }

    /// Sets the alarm outside a transaction: the way out when even the transaction fails.
    pub fn force_alarm(&self, at_ms: u64) {
        self.alarm.set(KnownAlarm::Gone);
        // A failure here is a failure of the storage itself: only a retry of the client wakes the object then.
        let _ = self.set_alarm(at_ms);
    }

    fn set_alarm(&self, at_ms: u64) -> Result<(), Bug> {
        self.storage.set_alarm(at_ms)?;
        self.alarm.set(KnownAlarm::At(at_ms));
        Ok(())
    }

    /// The alarm has fired, or could not be set, whatever was committed with it: whoever comes next sets it.
    pub fn alarm_gone(&self) {
        self.alarm.set(KnownAlarm::Gone);
    }

    /// The state.
    fn load(&self) -> Result<Option<Rc<Remembered<F>>>, Bug> {
        if !self.is_ready()? {
            return Ok(None);
        }
        self.parse(self.storage.text(READ)?.ok_or_else(gone)?).map(Some)
    }

    /// The state, and what stands beside it.
    fn load_all(&self) -> Result<Option<Loaded<F>>, Bug> {
        if !self.is_ready()? {
            return Ok(None);
        }
        let Row { text, lines, facts } = self.storage.row(READ_ALL)?.ok_or_else(gone)?;
        Ok(Some((self.parse(text)?, Beside::of(lines, facts))))
    }

    /// The state of this text, parsed anew only if it is not what is remembered.
    fn parse(&self, text: String) -> Result<Rc<Remembered<F>>, Bug> {
        let mut remembered = self.remembered.borrow_mut();
        if let Some(it) = remembered.as_ref().filter(|it| it.text == text) {
            return Ok(Rc::clone(it));
        }
        let (object_state, lines) = state::from_text(self.object, &text)?;
        F::verify(&object_state)?;
        let it = Rc::new(Remembered { text, lines, object_state: Rc::new(object_state) });
        *remembered = Some(Rc::clone(&it));
        Ok(it)
    }

    /// Whether there is a state. What an older release has left becomes one here.
    fn is_ready(&self) -> Result<bool, Bug> {
        if let Some(is_ready) = self.ready.get() {
            return Ok(is_ready);
        }
        let is_ready = match self.storage.text(MADE)? {
            None => false,
            Some(made) => made == TABLE || self.adopt()?,
        };
        self.ready.set(Some(is_ready));
        Ok(is_ready)
    }

    fn adopt(&self) -> Result<bool, Bug> {
        let Some(Adopted { object_state, lines, facts, tables }) =
            (self.hooks.adopt)(&self.storage, self.object)?
        else {
            return Ok(false);
        };
        object_state.verify()?;
        F::verify(&object_state)?;
        let kept = lines.len().min(LINES_MAX);
        let state = state::to_text(&object_state, u32::try_from(kept).unwrap_or(u32::MAX))?;
        let kept: Vec<&TimelineEntry> = first_and_newest(&lines).collect();
        let lines = state::to_json(&kept)?;
        self.storage.atomically(|| {
            for table in &tables {
                self.storage.exec(&format!("DROP TABLE {table}"), vec![])?;
            }
            self.storage.exec(TABLE, vec![])?;
            let first = "INSERT INTO timeline (id, state, lines) VALUES (0, ?, NULL), (1, NULL, ?)";
            self.storage.exec(first, vec![SqlValue::Text(state.clone()), SqlValue::Text(lines.clone())])?;
            for facts in &facts {
                let insert = "INSERT INTO timeline (facts) VALUES (?)";
                self.storage.exec(insert, vec![SqlValue::Text(facts.to_string())])?;
            }
            Ok(())
        })?;
        Ok(true)
    }

    fn commit(
        &self,
        (before, beside): (Option<&Remembered<F>>, Beside),
        before_state: &ObjectState<F>,
        mut after: ObjectState<F>,
        ctx: &Context<F::Settings>,
    ) -> Result<Result<(), Unreadable>, Bug> {
        F::on_commit(before_state, &mut after, ctx);
        let alarm_at_ms = alarm_to_set(before_state, &after, self.alarm.get(), ctx);
        let appended = after.take_appended();
        let has_facts = appended.facts != F::Facts::default();
        let is_changed = has_facts || !appended.timeline.is_empty() || *before_state != after;
        if !is_changed && !self.replays.borrow().is_due() {
            // Nothing is written but the alarm, if that must move.
            return alarm_at_ms.map_or(Ok(()), |at_ms| self.set_alarm(at_ms)).map(Ok);
        }
        // Whatever happens now, they are not counted twice.
        let replays = self.replays.borrow_mut().take();
        replays.add_to(&mut after);
        let timeline = [replays.lines(), &appended.timeline].concat();
        after.verify()?;
        F::verify(&after)?;
        let had = before.map_or(0, |it| it.lines as usize);
        let has = had.saturating_add(timeline.len());
        let lines = u32::try_from(has.min(LINES_MAX)).unwrap_or(u32::MAX);
        let text = state::to_text(&after, lines)?;
        // serde_json writes what no reader takes, such as JSON that is nested too deep. What has begun must be read again by each incarnation; what is
        // added later may only be nested deeper.
        if after.keys.len() > before_state.keys.len() {
            if let Err(bug) = state::from_text::<F>(self.object, &text) {
                return Ok(Err(Unreadable(bug)));
            }
        } else if json_text::is_too_deep(&text) {
            return Err(Bug("a state that could not be read again: it is nested too deep".into()));
        }
        let (statement, mut values) = match before {
            Some(_) if !has_facts && timeline.is_empty() => (STATE, vec![]),
            _ => {
                let facts = has_facts.then_some(&appended.facts);
                let beside = beside.and(&timeline, facts)?;
                (if beside.is_too_long() { APART } else { TOGETHER }, beside.values().into())
            }
        };
        values.insert(0, SqlValue::Text(text.clone()));
        // Whatever happens now, it is read again.
        self.remembered.replace(None);
        let is_there = self.ready.take();
        self.storage.atomically(|| {
            if is_there != Some(true) {
                self.storage.exec(TABLE, vec![])?;
            }
            self.storage.exec(statement, values.clone())?;
            if has > LINES_MAX {
                self.drop_lines()?;
            }
            alarm_at_ms.map_or(Ok(()), |at_ms| self.storage.set_alarm(at_ms))
        })?;
        self.ready.set(Some(true));
        if let Some(at_ms) = alarm_at_ms {
            self.alarm.set(KnownAlarm::At(at_ms));
        }
        (self.hooks.committed)(before_state, &after);
        let after = Rc::new(after);
        self.remembered.replace(Some(Rc::new(Remembered { text, lines, object_state: Rc::clone(&after) })));
        if let Some(told) = &*self.on_commit.borrow() {
            told(before_state, &after);
        }
        Ok(Ok(()))
    }

    /// The rows with lines, oldest first.
    fn lines(&self) -> Result<Vec<LinesRow>, Bug> {
        let select = "SELECT id, lines FROM timeline WHERE lines IS NOT NULL ORDER BY id = 0, id";
        self.storage.query(select, vec![])
    }

    /// Drops the lines in the middle of the timeline.
    fn drop_lines(&self) -> Result<(), Bug> {
        let mut rows = Vec::new();
        for row in self.lines()? {
            rows.push((row.id, state::parsed::<Vec<serde_json::Value>>(&row.lines)?));
        }
        let all: usize = rows.iter().map(|(_, lines)| lines.len()).sum();
        let mut at = 0;
        for (id, lines) in rows {
            let numbered = lines.iter().zip(at..);
            let kept: Vec<_> = numbered.filter(|(_, at)| is_kept(*at, all)).map(|(line, _)| line).collect();
            at = at.saturating_add(lines.len());
            let id = SqlValue::Integer(id);
            if kept.is_empty() {
                self.storage.exec("UPDATE timeline SET lines = NULL WHERE id = ?", vec![id])?;
            } else if kept.len() < lines.len() {
                let update = "UPDATE timeline SET lines = ? WHERE id = ?";
                self.storage.exec(update, vec![SqlValue::Text(state::to_json(&kept)?), id])?;
            }
        }
        self.drop_empty()
    }

    /// Drops the rows in which nothing is left.
    pub fn drop_empty(&self) -> Result<(), Bug> {
        self.storage.exec("DELETE FROM timeline WHERE id > 0 AND lines IS NULL AND facts IS NULL", vec![])
    }
}

#[derive(Deserialize)]
struct LinesRow {
    id: i64,
    lines: String,
}

fn gone() -> Bug {
    Bug("the object's state is gone".into())
}

/// Whether the line at this place of so many is kept.
const fn is_kept(at: usize, all: usize) -> bool {
    at < LINES_FIRST || at.saturating_add(LINES_NEWEST) >= all
}

fn first_and_newest<T>(all: &[T]) -> impl Iterator<Item = &T> {
    all.iter().enumerate().filter(|(at, _)| is_kept(*at, all.len())).map(|(_, it)| it)
}
