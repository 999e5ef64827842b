//! What can be pressed on a page, and where that leads.

use super::route::{OperatorAction, Target};

/// A button that changes something, in a form of its own.
#[derive(Clone, Debug, Default)]
pub struct Button {
    /// Where it is sent.
    pub path: String,
    /// Its one-time key. Without one it changes nothing: it leads to a page that asks once more.
    pub key: String,
    /// Its label.
    pub label: String,
    /// `danger`, or empty.
    pub tone: &'static str,
    /// The amount's default, if it takes an amount.
    pub amount: Option<String>,
    /// What was entered as the amount and cannot be done; and why, empty if nothing was.
    pub entered: String,
    /// See `entered`.
    pub wrong: String,
    /// The reasons that it takes for a refund, by their names, the chosen one first; none if it takes none.
    pub reasons: Vec<&'static str>,
    /// What the note is called that it takes; empty if it takes none.
    pub note: &'static str,
    /// What is sent along, by its name: what the page showed when the button was made, and where it has found it.
    pub entries: Vec<(&'static str, String)>,
}

/// In the address of something, and beside its buttons: the shard in which it was found.
pub(super) const SHARD: &str = "shard";

/// What is sent along with a button of something that was found in this shard; `None` is D1.
pub(super) fn of_shard(shard: Option<&str>) -> Option<(&'static str, String)> {
    shard.map(|shard| (SHARD, shard.to_owned()))
}

impl Button {
    /// A button that only asks: what leads to a page whose button acts.
    pub fn asking(act: OperatorAction, subject: &Target, label: &str) -> Self {
        Self { path: Self::path_of(act, subject), label: label.to_owned(), ..Self::default() }
    }

    /// The same of what cannot be taken back, or stops something.
    pub fn dangerous(act: OperatorAction, subject: &Target, label: &str) -> Self {
        Self { tone: "danger", ..Self::asking(act, subject, label) }
    }

    /// It is about something that the page has found in this shard; `None` is D1.
    #[must_use]
    pub fn found_in(mut self, shard: Option<&str>) -> Self {
        self.entries.extend(of_shard(shard));
        self
    }

    /// The address of a button.
    pub fn path_of(act: OperatorAction, subject: &Target) -> String {
        let encoded = |id: &str| {
            let safe = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b'~');
            id.bytes()
                .map(|b| if safe(b) { char::from(b).to_string() } else { format!("%{b:02X}") })
                .collect::<String>()
        };
        match subject {
            Target::Tasks => format!("/admin/tasks/{}", act.as_str()),
            Target::Token(_, hash) => format!("{}/tokens/{hash}/{}", subject.path(), act.as_str()),
            Target::Credential(_, kind) => {
                format!("{}/credentials/{}/{}", subject.path(), kind.as_str(), act.as_str())
            }
            Target::Jobs(None) => format!("/admin/dead-letters/{}", act.as_str()),
            Target::Jobs(Some(kind)) => format!("/admin/dead-letters/{}/{}", act.as_str(), kind.as_str()),
            Target::Job(id) => format!("/admin/dead-letters/{}/{}", encoded(id), act.as_str()),
            Target::Break(id) => format!("/admin/breaks/{}/{}", encoded(id), act.as_str()),
            Target::Breaks(kind) => format!("/admin/breaks/{}/{}", act.as_str(), kind.as_str()),
            Target::Payment(_)
            | Target::Call(..)
            | Target::Key(..)
            | Target::Gate(..)
            | Target::Account(_) => {
                format!("{}/{}", subject.path(), act.as_str())
            }
        }
    }
}
