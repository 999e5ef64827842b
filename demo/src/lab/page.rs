//! The lab's page: what is offered, and what became of the last presses.

use std::fmt;

use askama::Template;

use super::ledger::{Charge, Ledger, Side};
use super::payment::{Entry, PaymentView};
use super::{ClientOutcome, ExperimentId, InjectedFault, MANY, PRICE_MINOR, Presses, read, write};
use once::replays::{REPLAYED, REPLAYS_SHOWN_MAX};
use payments::payment::money::Currency;
use web::locale::EN;
use web::pages::{Site, refresh_s};

/// No more lines of a ledger are shown.
const LINES_MAX: usize = 10;

/// What the page's address says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// What went wrong.
    pub fault: Option<InjectedFault>,
    /// How often Pay was pressed in the last round.
    pub times: Option<u32>,
    /// What the client saw without protection, in the last round.
    pub unprotected: Presses,
    /// And with Paid Once.
    pub protected: Presses,
}

impl Query {
    /// From a query. What is not known in it is left out.
    pub fn parse(query: &str) -> Self {
        let mut parsed = Self::default();
        for (name, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
            match name {
                "fault" => parsed.fault = InjectedFault::parse(value),
                "times" => parsed.times = value.parse().ok().filter(|times| matches!(*times, 1 | MANY)),
                "unprotected" => parsed.unprotected = read(value),
                "protected" => parsed.protected = read(value),
                _ => {}
            }
        }
        parsed
    }
}

impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fault={}", self.fault.unwrap_or(InjectedFault::None).as_str())?;
        if let Some(times) = self.times {
            write!(f, "&times={times}")?;
        }
        for (name, presses) in [("unprotected", &self.unprotected), ("protected", &self.protected)] {
            if !presses.is_empty() {
                write!(f, "&{name}={}", write(presses))?;
            }
        }
        Ok(())
    }
}

/// Where the bank's page sends the browser back to.
pub fn back(origin: &str, experiment: &ExperimentId, fault: InjectedFault) -> String {
    format!("{origin}{}?fault={}", experiment.path(), fault.as_str())
}

/// What every page of the lab needs.
#[derive(Clone, Debug)]
pub struct FormState {
    /// See [`Site`].
    pub site: Site,
    /// The address of the script that shows it live.
    pub script: &'static str,
    /// See [`Query`].
    pub query: Query,
    /// For the next experiment.
    pub fresh: ExperimentId,
}

/// How an experiment stands.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Which one.
    pub experiment: ExperimentId,
    /// By the bank.
    pub ledger: Ledger,
    /// By the payments API; `None` before the first press.
    pub view: Option<PaymentView>,
    /// In ms since the epoch.
    pub now_ms: u64,
}

/// `GET /lab`, `GET /lab/{id}`
#[derive(Template)]
#[template(path = "lab.html")]
pub struct LabPage {
    /// See [`Site`].
    pub site: Site,
    /// The address of the script.
    pub script: &'static str,
    /// What can go wrong.
    pub choices: Vec<Choice>,
    /// How often Pay is to be pressed.
    pub times: u32,
    /// For the next experiment.
    pub fresh: ExperimentId,
    /// The price, for a person.
    pub price: String,
    /// What became of it.
    pub result: Option<Outcome>,
}

/// One of the faults.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    /// Which.
    pub fault: InjectedFault,
    /// Whether it is chosen.
    pub chosen: bool,
}

/// What became of an experiment.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Which one.
    pub experiment: ExperimentId,
    /// What went wrong in it.
    pub fault: InjectedFault,
    /// How often Pay was pressed in the last round, if the address says it.
    times: Option<u32>,
    /// How often Pay was pressed in all, for a person.
    pub pressed: String,
    /// Without protection, then with it.
    pub sides: [Column; 2],
    /// Whether it can be told what happened: not while the presses are still under way.
    pub is_told: bool,
    /// When to look again, in seconds, while the protected payment is not decided.
    pub refresh_s: Option<u32>,
}

impl Outcome {
    /// Where this result is shown to whoever has its address.
    pub fn address(&self) -> String {
        let [unprotected, protected] = &self.sides;
        let query = Query {
            fault: Some(self.fault),
            times: self.times,
            unprotected: unprotected.presses.clone(),
            protected: protected.presses.clone(),
        };
        format!("{}?{query}", self.experiment.path())
    }

    /// All of it in three sentences.
    pub fn verdict(&self) -> [String; 3] {
        let of = |column: &Column| format!("{}: {}.", column.short, column.sum());
        let [unprotected, protected] = &self.sides;
        [format!("{}.", self.pressed), of(unprotected), of(protected)]
    }
}

/// One side.
#[derive(Clone, Debug)]
pub struct Column {
    /// Which.
    pub side: Side,
    /// Its title.
    pub title: &'static str,
    /// What it does.
    pub method: &'static str,
    /// Its name in the verdict.
    short: &'static str,
    /// `charged 4 times`.
    pub count: String,
    /// `$80.00`; empty where nothing was charged.
    pub amount: String,
    /// `good`, `bad` or `open`.
    pub tone: &'static str,
    /// What the client saw of each press in the last round.
    pub presses: Vec<Vec<ClientOutcome>>,
    /// What came from the browser, and how much of it came to the bank.
    pub lanes: Lanes,
    /// The newest lines of the bank's ledger, oldest first.
    pub charges: Vec<Charge>,
    /// How many lines stand before them.
    pub earlier: usize,
    /// The bank's pages that wait for the person.
    pub bank_pages: Vec<String>,
    /// What Paid Once has done, step by step.
    pub timeline: Vec<Moment>,
}

impl Column {
    /// What stands between the browser and the bank.
    pub const fn gate(&self) -> &'static str {
        match self.side {
            Side::Unprotected => "Shop",
            Side::Protected => "Paid Once",
        }
    }

    fn sum(&self) -> String {
        if self.amount.is_empty() { self.count.clone() } else { format!("{}, {}", self.count, self.amount) }
    }
}

/// The requests of the last round, from the browser to the bank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lanes {
    /// How often a person clicked, and how often their program asked again by itself; empty before that is known.
    pub sent: String,
    /// For each request, whether something came of it at the bank.
    pub passed: Vec<bool>,
}

impl Lanes {
    fn of(presses: &Presses, at_the_bank: usize) -> Self {
        let (clicks, requests) = (presses.len(), presses.iter().map(Vec::len).sum::<usize>());
        if clicks == 0 {
            return Self::default();
        }
        let plural = |count: usize, one: &str, many: &str| match count {
            1 => format!("1 {one}"),
            count => format!("{count} {many}"),
        };
        let retries = plural(requests.saturating_sub(clicks), "automatic retry", "automatic retries");
        Self {
            sent: format!("{} + {retries}", plural(clicks, "click", "clicks")),
            passed: (0..requests).map(|request| request < at_the_bank).collect(),
        }
    }

    /// How high the drawing is.
    pub fn height(&self) -> usize {
        self.passed.len() * 12 + 36
    }

    /// Where a request is drawn.
    pub fn y(&self, index: &usize) -> usize {
        index * 12 + 34
    }

    /// The drawing in words.
    pub fn told(&self) -> String {
        let passed = self.passed.iter().filter(|passed| **passed).count();
        format!("{} requests from the browser; {passed} of them came to the bank.", self.passed.len())
    }
}

/// One line of the timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Since the key was first used: `+0.62 s`.
    pub after: String,
    /// What was done, in plain words.
    pub text: String,
    /// Whether that is a step that keeps the payment from being made twice.
    pub saves: bool,
}

/// The page.
pub fn page(form_state: FormState, seen: Option<Seen>) -> LabPage {
    let FormState { site, script, query, fresh } = form_state;
    let chosen = query.fault.unwrap_or(InjectedFault::AnswerLost);
    LabPage {
        site,
        script,
        choices: InjectedFault::ALL.map(|fault| Choice { fault, chosen: fault == chosen }).to_vec(),
        times: query.times.unwrap_or(MANY),
        fresh,
        price: EN.money(PRICE_MINOR, Currency::USD),
        result: seen.map(|seen| outcome(query, seen)),
    }
}

fn outcome(query: Query, seen: Seen) -> Outcome {
    let Seen { experiment, ledger, view, now_ms } = seen;
    let Query { fault, times: round, unprotected, protected } = query;
    let is_told = !unprotected.is_empty() || fault == Some(InjectedFault::BankPage);
    let presses = ledger.presses().max(unprotected.len()).max(protected.len());
    let open_since_ms = view.as_ref().filter(|view| view.is_open).map(|view| view.since_ms);
    let bank_page = view.as_ref().and_then(|view| view.bank_page.clone());
    let waiting = ledger.waiting.iter().map(|waiting| waiting.url.clone()).collect();
    let bare = column(Side::Unprotected, &ledger, unprotected, waiting, false);
    let pages = bank_page.into_iter().collect();
    let kept = Column {
        timeline: view.map(|view| timeline(&view.timeline)).unwrap_or_default(),
        ..column(Side::Protected, &ledger, protected, pages, open_since_ms.is_some())
    };
    Outcome {
        experiment,
        fault: fault.unwrap_or(InjectedFault::None),
        times: round,
        pressed: match presses {
            0 => "You have not pressed yet".to_owned(),
            presses => format!("You pressed {}", times(presses)),
        },
        sides: [bare, kept],
        is_told,
        refresh_s: open_since_ms.map(|since_ms| refresh_s(now_ms.saturating_sub(since_ms))),
    }
}

fn column(side: Side, ledger: &Ledger, presses: Presses, bank_pages: Vec<String>, is_open: bool) -> Column {
    let charges: Vec<Charge> = ledger.of(side).cloned().collect();
    let paid: Vec<&Charge> = charges.iter().filter(|charge| charge.paid).collect();
    let sum = paid.iter().fold(0u64, |sum, charge| sum.saturating_add(charge.amount));
    let refused = charges.len().saturating_sub(paid.len());
    let (count, at_most_one) = match (paid.len(), refused, bank_pages.len()) {
        (0, 0, 0) if is_open => ("not known yet".to_owned(), true),
        (0, 0, 0) => ("not charged".to_owned(), true),
        (0, 0, 1) => ("waits for you at the bank".to_owned(), true),
        (0, 0, pages) => (format!("waits for you at the bank {}", times(pages)), false),
        (0, refused, _) => (format!("declined {}", times(refused)), refused <= 1),
        (paid, _, 0) => (format!("charged {}", times(paid)), paid <= 1),
        (paid, _, pages) => {
            (format!("charged {}, and waits at the bank {}", times(paid), times(pages)), false)
        }
    };
    let earlier = charges.len().saturating_sub(LINES_MAX);
    let lanes = Lanes::of(&presses, charges.len() + bank_pages.len());
    let (title, method, short) = match side {
        Side::Unprotected => ("Without protection", "Each request goes straight to the bank.", "Unprotected"),
        Side::Protected => ("With Paid Once", "The same presses, through Paid Once.", "Paid Once"),
    };
    Column {
        side,
        title,
        method,
        short,
        count,
        amount: if sum > 0 { EN.money(sum, Currency::USD) } else { String::new() },
        tone: match (is_open, at_most_one) {
            (true, _) => "open",
            (false, true) => "good",
            (false, false) => "bad",
        },
        presses,
        lanes,
        charges: charges.into_iter().skip(earlier).collect(),
        earlier,
        bank_pages,
        timeline: Vec::new(),
    }
}

/// `once`, `twice`, `3 times`.
fn times(count: usize) -> String {
    match count {
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        count => format!("{count} times"),
    }
}

/// The timeline of the newest key, for a person. Steps that only prepare others are left out.
pub fn timeline(entries: &[Entry]) -> Vec<Moment> {
    let began_at_ms = entries.first().map_or(0, |entry| entry.at_ms);
    let is_replay = |entry: &Entry| entry.event == REPLAYED;
    let moment = |run: &[Entry]| {
        let entry = run.first()?;
        let (text, saves) = if is_replay(entry) {
            (asked_again(run.len()), true)
        } else {
            told(&entry.event, &entry.detail)?
        };
        let ms = entry.at_ms.saturating_sub(began_at_ms);
        let after = format!("+{}.{:02} s", ms / 1000, ms % 1000 / 10);
        Some(Moment { after, text, saves })
    };
    entries.chunk_by(|one, next| is_replay(one) && is_replay(next)).filter_map(moment).collect()
}

/// What became of requests that came after the answer was stored. Only the first ones have a line.
fn asked_again(count: usize) -> String {
    let often = match count {
        1 => return "Asked again: the stored answer is sent".to_owned(),
        count if count >= REPLAYS_SHOWN_MAX as usize => format!("{count} times or more"),
        count => times(count),
    };
    format!("Asked again {often}: the stored answer is sent each time")
}

fn told(event: &str, detail: &str) -> Option<(String, bool)> {
    let text = match event {
        "key_created" => "The key is taken: every later press meets it here".to_owned(),
        "recovery_point" if detail == "reserved" => "The payment is written down".to_owned(),
        "call_frozen" => {
            format!("What will be sent to the bank is written down, under the key {}", short(detail))
        }
        "call_sent" => match detail.rsplit_once("send ") {
            Some((_, "1")) => "Sent to the bank".to_owned(),
            Some((_, number)) => format!("The same bytes are sent again, under the same key (send {number})"),
            None => "Sent to the bank".to_owned(),
        },
        "call_outcome" => match detail.split_once(": ") {
            Some(("not executed", why)) => format!("Not executed: {why}"),
            Some(("unknown" | "indeterminate" | "unconfirmed", why)) => {
                format!("Unknown: {why}. That is not a no")
            }
            Some(_) | None => format!("The bank {detail}"),
        },
        "look_up" => match detail.strip_prefix("the configured key is of ") {
            Some(account) => format!("Asked the bank whose secret key is used: {account}"),
            None => format!("Looked for the charge in the bank’s list: {detail}"),
        },
        "resumed" => format!("Taken up again: {detail}"),
        "released" => format!("Put aside: {detail}"),
        "finished" => "The answer is stored: from now on everybody gets this one".to_owned(),
        _ => return None,
    };
    let is_again = event == "call_sent" && !detail.ends_with("send 1");
    Some((text, is_again || matches!(event, "call_frozen" | "look_up" | "resumed" | "finished")))
}

/// A derived key begins with the payment's long id; its end says what it is for.
fn short(provider_key: &str) -> String {
    match (provider_key.get(..10), provider_key.rsplit_once('_')) {
        (Some(head), Some((_, tail))) if provider_key.len() > 24 => format!("{head}…_{tail}"),
        _ => provider_key.to_owned(),
    }
}
