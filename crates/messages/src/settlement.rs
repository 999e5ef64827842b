//! The files that an operator sends: Adyen's settlement details reports and the bank's acknowledgements. The desk hands them to the
//! payments Worker, which imports them, and says what came of it.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The largest report, in bytes: it is held in memory as a whole.
pub const REPORT_MAX_BYTES: usize = 25_165_824;
/// The largest acknowledgement, in bytes.
pub const ACK_MAX_BYTES: usize = 1_048_576;
/// The longest name of a file, in characters.
const NAME_MAX: usize = 120;

/// The columns of a [`Report`].
pub const REPORT_COLUMNS: &str =
    "report_id, name, bytes, bytes_done, line, state, counts, error, merchant_account, received_at_ms";

/// How many lines of which kinds were read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Lines of known types, by type.
    pub types: BTreeMap<String, u64>,
    /// Those that are not.
    pub unknown: BTreeMap<String, u64>,
    /// Of all these, those of accounts' own merchant accounts, by their names.
    #[serde(default)]
    pub own: BTreeMap<String, u64>,
    /// Those of other merchant accounts, which are not known here.
    pub of_others: u64,
    /// Those that move money and could not be read.
    pub unreadable: u64,
}

impl Counts {
    /// The merchant accounts of which a report with these has lines, as far as they are counted: by their names, the deployment's by the empty one.
    pub fn told_of(&self) -> BTreeSet<String> {
        let sum = |counts: &BTreeMap<String, u64>| counts.values().sum::<u64>();
        let own = sum(&self.own);
        let all = sum(&self.types) + sum(&self.unknown) + self.unreadable;
        let deployments = (all > own).then(String::new);
        self.own.keys().cloned().chain(deployments).collect()
    }
}

/// A report, as its row has it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// SHA-256 of its bytes, in hexadecimal; where it was fetched with an account's own key, and the merchant account behind it.
    pub report_id: String,
    /// What the file was called when it came; also when it came again and is read anew.
    pub name: String,
    /// How long it is.
    pub bytes: u64,
    /// How much of it is read.
    pub bytes_done: u64,
    /// The number of the line at which the next slice begins.
    pub line: u64,
    /// `waiting`, `done` or `refused`.
    pub state: String,
    /// [`Counts`], as JSON.
    pub counts: String,
    /// Why it was refused.
    pub error: Option<String>,
    /// The one merchant account whose lines count, where it was fetched with the key of an account.
    #[serde(default)]
    pub merchant_account: Option<String>,
    /// When it came, in ms since the epoch.
    pub received_at_ms: u64,
}

impl Report {
    /// How many lines of which kinds were read.
    pub fn counted(&self) -> Counts {
        json_text::from_str(&self.counts).unwrap_or_default()
    }

    /// Its progress, in words.
    pub fn said(&self) -> String {
        let counts = self.counted();
        let sum = |counts: &BTreeMap<String, u64>| counts.values().sum::<u64>();
        let how_far = match (&self.error, self.state.as_str()) {
            (Some(error), _) => format!("read no further: {error}"),
            (None, "done") => "read whole".to_owned(),
            (None, _) => format!("{} of {} bytes read; it goes on by itself", self.bytes_done, self.bytes),
        };
        format!(
            "{how_far}; {} lines, {} of unknown types, {} of merchant accounts that are not known here, {} that cannot be read",
            sum(&counts.types),
            sum(&counts.unknown),
            counts.of_others,
            counts.unreadable
        )
    }
}

/// The file's name, reduced to plain characters.
pub fn name(given: &str) -> String {
    let is_plain = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let name: String = given.chars().filter(is_plain).take(NAME_MAX).collect();
    if name.is_empty() { "report.csv".to_owned() } else { name }
}

/// As the log of operators names the import of these bytes.
pub fn action(bytes: &[u8]) -> String {
    let hash: String = base16ct::lower::encode_string(&Sha256::digest(bytes)).chars().take(16).collect();
    format!("import report {hash}")
}

/// The result of uploading a report.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Uploaded {
    /// It is stored, and read this far.
    Kept(Report),
    /// It is not a report, for this reason.
    NoReport(String),
    /// The bucket or Adyen is not configured.
    Off(String),
}

/// How many lines of an acknowledgement were booked and how many were not, by reason; or what is wrong with the file, of which no line
/// was booked.
pub type Imported = Result<BTreeMap<String, u64>, Vec<String>>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_tells_of_whom_it_has_lines() {
        let of = |types: u64, unreadable: u64, own: &[(&str, u64)], of_others: u64| {
            let types = BTreeMap::from([("Settled".to_owned(), types)]);
            let own = own.iter().map(|(name, number)| ((*name).to_owned(), *number)).collect();
            let counts = Counts { types, own, of_others, unreadable, ..Counts::default() };
            counts.told_of().into_iter().collect::<Vec<_>>()
        };
        assert_eq!(of(0, 0, &[], 2), [""; 0]);
        assert_eq!(of(3, 0, &[], 2), [""]);
        assert_eq!(of(3, 0, &[("A", 1), ("B", 2)], 2), ["A", "B"]);
        assert_eq!(of(3, 0, &[("A", 1), ("B", 1)], 0), ["", "A", "B"]);
        assert_eq!(of(1, 1, &[("A", 1)], 0), ["", "A"]);
    }
}
