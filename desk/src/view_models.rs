//! The desk's view models: each page is one askama template in `templates/desk/`.

use askama::Template;

use super::button::Button;
use super::format;
use super::health::HealthSummary;
use super::payment_summary::Share;
use super::timeline_svg::Picture;
use payments::timestamp;
use web::pages::{Notice, Site};

/// What every page of the desk needs.
#[derive(Clone, Debug)]
pub struct PageChrome {
    /// The address of the desk's style sheet, with its version.
    pub style: &'static str,
    /// The address of the desk's script, with its version.
    pub script: &'static str,
    /// The operator's name.
    pub operator: String,
    /// Whether they can log out here.
    pub has_session: bool,
    /// The page's own address, marked in the menu.
    pub here: &'static str,
    /// How many dead letters there are.
    pub dead: u64,
    /// How many breaks are open.
    pub breaks: u64,
    /// How much of what the gate has passed on nobody knows the end of; `None` where no gate is bound.
    pub gate: Option<u64>,
    /// Whether a bucket for history is bound.
    pub has_history: bool,
    /// The result of the last action.
    pub notice: Option<Notice>,
    /// What of the read model is missing here, where a shard did not answer.
    pub missing: Option<String>,
}

/// An entry of the menu.
#[derive(Clone, Copy, Debug)]
pub struct MenuItem {
    /// Its address.
    pub path: &'static str,
    /// Its name.
    pub name: &'static str,
    /// How many entries wait there.
    pub waits: u64,
}

impl PageChrome {
    /// The menu.
    pub fn menu(&self) -> Vec<MenuItem> {
        let item = |path, name, waits| MenuItem { path, name, waits };
        let mut items = vec![
            item("/admin", "Overview", 0),
            item("/admin/payments", "Payments", 0),
            item("/admin/keys", "Keys", 0),
            item("/admin/dead-letters", "Dead letters", self.dead),
            item("/admin/breaks", "Breaks", self.breaks),
            item("/admin/accounts", "Accounts", 0),
            item("/admin/reports", "Reports", 0),
            item("/admin/settlement", "Settlement", 0),
            item("/admin/audit", "Audit", 0),
        ];
        if self.has_history {
            items.insert(8, item("/admin/history", "History", 0));
        }
        if let Some(unknown) = self.gate {
            items.insert(3, item("/admin/gate", "Gate", unknown));
        }
        items
    }
}

/// The login page.
#[derive(Template)]
#[template(path = "login.html")]
pub struct Login {
    /// See [`Site`].
    pub site: Site,
    /// The address of the desk's style sheet.
    pub style: &'static str,
    /// Where the form is sent, with where to go after the login.
    pub action: String,
    /// Why the one before did not let anybody in.
    pub error: Option<String>,
}

/// The answer to a form that came after its session.
#[derive(Template)]
#[template(path = "session_ended.html")]
pub struct SessionEnded {
    /// See [`Site`].
    pub site: Site,
}

/// A number of the overview.
#[derive(Clone, Debug)]
pub struct Tile {
    /// What it counts.
    pub label: &'static str,
    /// The number.
    pub value: String,
    /// More about it.
    pub note: String,
    /// `good`, `warn`, `bad` or empty.
    pub tone: &'static str,
    /// Where it leads; may be empty.
    pub href: &'static str,
}

/// A plot on a page.
#[derive(Clone, Debug)]
pub struct Chart {
    /// What it shows.
    pub title: String,
    /// How to read it; may be empty.
    pub note: &'static str,
    /// The SVG element.
    pub svg: String,
    /// A class and a name for each series.
    pub legend: Vec<(&'static str, &'static str)>,
}

/// The newest run of a task.
#[derive(Clone, Debug)]
pub struct TaskRun {
    /// Its name.
    pub task: String,
    /// `2 min ago`.
    pub when: String,
    /// How long it took.
    pub took: String,
    /// Its result.
    pub result: String,
}

/// `GET /admin`
#[derive(Template)]
#[template(path = "overview.html")]
pub struct Overview {
    /// See [`Site`].
    pub site: Site,
    /// See [`PageChrome`].
    pub chrome: PageChrome,
    /// The ranges to choose from: word, name, whether it is this one.
    pub ranges: Vec<(&'static str, &'static str, bool)>,
    /// Whether there is anything to do.
    pub health: HealthSummary,
    /// The numbers.
    pub tiles: Vec<Tile>,
    /// The plots.
    pub charts: Vec<Chart>,
    /// The scheduled tasks.
    pub runs: Vec<TaskRun>,
    /// Runs them now.
    pub run_now: Button,
}

/// One value in a list.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    /// What is shown.
    pub text: String,
    /// Where it leads; may be empty.
    pub href: String,
    /// `id`, `number`, `wide`, or empty.
    pub class: &'static str,
    /// Makes it a chip: `good`, `warn`, `bad`, `plain`; else empty.
    pub chip: &'static str,
    /// What people call it by, at the beginning of the second line; may be empty.
    pub reference: String,
    /// A second line; may be empty.
    pub note: String,
    /// What the text means, of a status; else empty.
    pub title: &'static str,
    /// If it is a moment: that, by RFC 3339.
    pub at: String,
}

impl Cell {
    /// Text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// A moment: in UTC, and with the desk's script where the operator is.
    pub fn moment(at_ms: u64) -> Self {
        Self { at: timestamp(at_ms), ..Self::text(format::moment(at_ms)) }
    }

    /// A number.
    pub fn number(text: impl Into<String>) -> Self {
        Self { class: "number", ..Self::text(text) }
    }

    /// An id that leads somewhere.
    pub fn link(text: impl Into<String>, href: impl Into<String>) -> Self {
        Self { href: href.into(), class: "id", ..Self::text(text) }
    }

    /// A state.
    pub fn chip(text: impl Into<String>, chip: &'static str) -> Self {
        Self { chip, ..Self::text(text) }
    }

    /// With a second line.
    #[must_use]
    pub fn with(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }
}

/// One entry of a list.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// One for each column.
    pub cells: Vec<Cell>,
    /// What can be done with it.
    pub buttons: Vec<Button>,
}

/// A choice above a list.
#[derive(Clone, Debug)]
pub struct Select {
    /// The parameter's name.
    pub name: &'static str,
    /// For people.
    pub label: &'static str,
    /// Value, name, and whether it is chosen.
    pub options: Vec<(&'static str, &'static str, bool)>,
}

/// A list: payments, keys, dead letters, breaks, reports, settlement files, audit.
#[derive(Template)]
#[template(path = "list.html")]
pub struct List {
    /// See [`Site`].
    pub site: Site,
    /// See [`PageChrome`].
    pub chrome: PageChrome,
    /// The heading.
    pub title: &'static str,
    /// A sentence below it.
    pub intro: &'static str,
    /// What was searched for; `None` if this list cannot be searched.
    pub search: Option<String>,
    /// The day that was chosen, or empty; `None` if this list has no choice of a day.
    pub day: Option<String>,
    /// What can be searched for.
    pub hint: &'static str,
    /// What can be chosen.
    pub selects: Vec<Select>,
    /// The columns' names.
    pub columns: &'static [&'static str],
    /// The entries.
    pub rows: Vec<Row>,
    /// The text of an empty list.
    pub empty_text: &'static str,
    /// Buttons for all of it.
    pub buttons: Vec<Button>,
    /// The statuses that stand in it, each with what it means; may be empty.
    pub legend: Vec<(Cell, &'static str)>,
    /// Where the list can be had as a file; may be empty.
    pub download: String,
    /// The one-time key of the form that sends a file to this page; `None` if it takes none.
    pub upload: Option<String>,
    /// The address of the page before; may be empty.
    pub newer: String,
    /// The address of the next page; may be empty.
    pub older: String,
}

impl List {
    /// A column's name, for narrow screens on which each value stands under its own.
    pub fn column(&self, index: &usize) -> &'static str {
        self.columns.get(*index).copied().unwrap_or_default()
    }

    /// Whether it stays up to date by itself. What takes a file changes only when somebody sends one, and a wrong filter finds nothing.
    pub fn is_live(&self) -> bool {
        let is_refused = self.chrome.notice.as_ref().is_some_and(|notice| notice.tone == "error");
        self.upload.is_none() && !is_refused
    }

    /// Whether there is a column of buttons.
    pub fn has_buttons(&self) -> bool {
        self.rows.iter().any(|row| !row.buttons.is_empty())
    }
}

/// A fact about something: its name and its value.
#[derive(Clone, Debug)]
pub struct Fact {
    /// What.
    pub name: &'static str,
    /// The value.
    pub cell: Cell,
}

/// An entry of a timeline, as it is shown.
#[derive(Clone, Debug)]
pub struct EntryView {
    /// RFC 3339.
    pub at: String,
    /// To the second.
    pub moment: String,
    /// Since the line before: `+120 ms`; empty at first.
    pub since: String,
    /// Its lane.
    pub lane: &'static str,
    /// `good`, `bad`, `warn` or empty.
    pub tone: &'static str,
    /// What happened.
    pub what: String,
    /// More.
    pub detail: String,
}

/// A small table on a page.
#[derive(Clone, Debug)]
pub struct Table {
    /// Its heading.
    pub title: &'static str,
    /// The columns' names.
    pub columns: &'static [&'static str],
    /// The rows.
    pub rows: Vec<Row>,
}

impl Table {
    /// A column's name.
    pub fn column(&self, index: &usize) -> &'static str {
        self.columns.get(*index).copied().unwrap_or_default()
    }
}

/// What an operator can say of a call.
#[derive(Clone, Debug)]
pub struct ByHandForm {
    /// Where it is sent.
    pub path: String,
    /// How often the call had been sent when the page was made.
    pub sends: u32,
    /// The provider's id, as it was entered, or as the provider shows it.
    pub id: String,
    /// What it looks like.
    pub id_hint: String,
    /// What counts for it.
    pub executed_hint: String,
    /// Value, name, and whether it is chosen; empty where the provider says it.
    pub outcomes: Vec<(&'static str, String, bool)>,
    /// What "not executed" risks.
    pub risk: String,
    /// The reason, as it was entered.
    pub reason: String,
    /// Why it cannot be said yet that it was not executed; empty if it can.
    pub too_early: String,
}

/// The page of a call, on which an operator says how it ended.
#[derive(Template)]
#[template(path = "call.html")]
pub struct CallPage {
    /// See [`Site`].
    pub site: Site,
    /// See [`PageChrome`].
    pub chrome: PageChrome,
    /// The heading.
    pub title: String,
    /// Its status.
    pub status: Cell,
    /// The payment's page, and its id.
    pub back: (String, String),
    /// What is wrong with what was entered; may be empty.
    pub error: String,
    /// The entry that it is about, by its id on the page; may be empty.
    pub wrong: &'static str,
    /// Facts.
    pub facts: Vec<Fact>,
    /// What the provider shows now; empty if it was not asked.
    pub shown: String,
    /// `good`, `warn` or `plain`.
    pub shown_tone: &'static str,
    /// Its result.
    pub lines: Vec<EntryView>,
    /// Why nothing can be said now; may be empty.
    pub closed: String,
    /// What can be said; `None` if nothing.
    pub form: Option<ByHandForm>,
    /// Stops sending; `None` if nothing can be said.
    pub hold: Option<Button>,
}

/// What would be settled or moved, to be confirmed.
#[derive(Template)]
#[template(path = "confirm.html")]
pub struct ConfirmPage {
    /// See [`Site`].
    pub site: Site,
    /// See [`PageChrome`].
    pub chrome: PageChrome,
    /// The heading.
    pub title: String,
    /// The page of the call or the payment.
    pub back: String,
    /// What is about to be done.
    pub sentence: String,
    /// Facts.
    pub facts: Vec<Fact>,
    /// What follows from it.
    pub risk: String,
    /// The button, and what was entered.
    pub button: Button,
    /// What the note is called that it takes; empty if it takes none.
    pub note: &'static str,
    /// The entries that go with it.
    pub entries: Vec<(&'static str, String)>,
    /// What is said below the button.
    pub hint: &'static str,
}

/// The page of a payment, a key or a dead letter.
#[derive(Template)]
#[template(path = "detail.html")]
pub struct DetailPage {
    /// See [`Site`].
    pub site: Site,
    /// See [`PageChrome`].
    pub chrome: PageChrome,
    /// What it is: `Payment`.
    pub kind: &'static str,
    /// Its id, or its hash.
    pub id: String,
    /// Its status.
    pub status: Cell,
    /// What became of it, in sentences; may be empty.
    pub summary: Vec<String>,
    /// Where its money is; may be empty.
    pub shares: Vec<Share>,
    /// Facts.
    pub facts: Vec<Fact>,
    /// What can be done.
    pub buttons: Vec<Button>,
    /// What happened, drawn; may be empty.
    pub picture: Picture,
    /// Refunds, what operators did.
    pub tables: Vec<Table>,
    /// Keys, calls and tries of a payment: folded.
    pub internals: Vec<Table>,
    /// They are what has to be looked at.
    pub internals_open: bool,
    /// What happened.
    pub timeline: Vec<EntryView>,
    /// Something to look at as it is: a dead letter's payload; may be empty.
    pub raw: String,
}

impl DetailPage {
    /// One of its buttons leads to a page that asks once more.
    pub fn asks_first(&self) -> bool {
        self.buttons.iter().any(|button| button.key.is_empty())
    }

    /// An amount that was entered on it cannot be taken: until that is mended the page stays as it is.
    pub fn has_mistake(&self) -> bool {
        self.buttons.iter().any(|button| !button.wrong.is_empty())
    }
}
