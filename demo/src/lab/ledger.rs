//! What the bank knows about an experiment: the lines of the simulator's ledger, and the payments that wait for its page.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::payment::NextAction;

/// Which side of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// What most shops begin with: no key, no record.
    Unprotected,
    /// Paid Once.
    Protected,
}

impl Side {
    /// Its word in the metadata of what is asked of the bank.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unprotected => "unprotected",
            Self::Protected => "protected",
        }
    }
}

/// What the lab adds to each request, and finds again at the bank.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
pub struct Marks {
    /// The experiment.
    #[serde(default)]
    pub lab: String,
    /// [`Side::as_str`].
    #[serde(default)]
    pub side: String,
    /// Which press it was.
    #[serde(default)]
    pub press: String,
}

/// A charge, also one that failed.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct Charge {
    /// The bank's id of it.
    pub id: String,
    /// In cents.
    pub amount: u64,
    /// Whether the bank said yes.
    pub paid: bool,
    /// The key under which it was asked, if there was one.
    pub idempotency_key: Option<String>,
    /// See [`Marks`].
    pub metadata: Marks,
}

/// A payment that waits for the bank's page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The page.
    pub url: String,
    /// See [`Marks`].
    pub marks: Marks,
}

/// All that the bank knows about one experiment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Oldest first.
    pub charges: Vec<Charge>,
    /// Of the unprotected side; oldest first.
    pub waiting: Vec<Waiting>,
}

impl Ledger {
    /// The charges of a side.
    pub fn of(&self, side: Side) -> impl Iterator<Item = &Charge> {
        self.charges.iter().filter(move |charge| charge.metadata.side == side.as_str())
    }

    /// How often Pay was pressed, as far as the bank can know.
    pub fn presses(&self) -> usize {
        let charged = self.of(Side::Unprotected).map(|charge| &charge.metadata.press);
        let waiting = self.waiting.iter().map(|waiting| &waiting.marks.press);
        charged.chain(waiting).collect::<BTreeSet<_>>().len()
    }
}

/// Reads the simulator's `GET /_sim/ledger`.
pub fn charges(json: &str) -> serde_json::Result<Vec<Charge>> {
    #[derive(Deserialize)]
    struct Body {
        charges: Vec<Charge>,
    }
    serde_json::from_str::<Body>(json).map(|body| body.charges)
}

/// Reads Stripe's list of payments, which has the newest first: those of an experiment that wait for the bank's page.
pub fn waiting(json: &str, experiment: &str) -> serde_json::Result<Vec<Waiting>> {
    #[derive(Deserialize)]
    struct List {
        data: Vec<Intent>,
    }
    #[derive(Deserialize)]
    struct Intent {
        next_action: Option<NextAction>,
        metadata: Marks,
    }
    let of_this = |intent: Intent| {
        let is_mine = intent.metadata.lab == experiment && intent.metadata.side == Side::Unprotected.as_str();
        let url = intent.next_action?.bank_page()?;
        is_mine.then_some(Waiting { url, marks: intent.metadata })
    };
    let list: List = serde_json::from_str(json)?;
    Ok(list.data.into_iter().rev().filter_map(of_this).collect())
}
