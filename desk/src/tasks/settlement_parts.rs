//! The file of a large day, in parts. Pure.
//!
//! A day whose lines fit into one part is the file `settlement/2026-11-20.csv`. Of a larger one each part is such a file, with its own totals and
//! trailer: `settlement/2026-11-20/0001.csv` has the first lines, sorted by their ids, the next part those after them. Once all of them are
//! there the manifest follows, `settlement/2026-11-20.json`: whoever sees it knows that the day is complete.
//!
//! ```json
//! {
//!   "day": "2026-11-20",
//!   "lines": 2,
//!   "totals": { "capture": { "usd": 3500 } },
//!   "parts": [
//!     { "name": "settlement/2026-11-20/0001.csv", "lines": 1, "sha256": "9f86d0…", "totals": { "capture": { "usd": 2500 } } },
//!     { "name": "settlement/2026-11-20/0002.csv", "lines": 1, "sha256": "60303a…", "totals": { "capture": { "usd": 1000 } } }
//!   ]
//! }
//! ```
//!
//! `sha256` is of the whole part, as `sha256sum` says it.
//!
//! Where the read model is in shards every day has a manifest. It names the parts of D1, as above, and then those of each shard:
//! `settlement/2026-11-20/g1-2026-11-003/0001.csv`. A place without movements has no part.

use serde::{Deserialize, Serialize};

use super::settlement_file::{TooLarge, Totals};

pub use crate::config::PART_LINES;

/// A part that is written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Its object.
    pub name: String,
    /// How many lines it has.
    pub lines: u64,
    /// Of the whole object, in hexadecimal.
    pub sha256: String,
    /// Its control totals.
    pub totals: Totals,
}

/// What stands in the manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Manifest {
    /// Such as `2026-11-20`.
    pub day: String,
    /// Of all parts.
    pub lines: u64,
    /// Of all parts.
    pub totals: Totals,
    /// In the order of their lines.
    pub parts: Vec<Part>,
}

impl Manifest {
    /// Of these parts, which are all of the day.
    pub fn of(day: &str, parts: Vec<Part>) -> Result<Self, TooLarge> {
        let mut totals = Totals::new();
        let mut lines = 0_u64;
        for part in &parts {
            lines = lines.checked_add(part.lines).ok_or(TooLarge)?;
            for (kind, sums) in &part.totals {
                for (currency, minor) in sums {
                    let sum = totals.entry(kind.clone()).or_default().entry(currency.clone()).or_default();
                    *sum = sum.checked_add(*minor).ok_or(TooLarge)?;
                }
            }
        }
        Ok(Self { day: day.to_owned(), lines, totals, parts })
    }

    /// Its bytes: the same for the same parts.
    pub fn text(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self).map(|text| text + "\n")
    }
}

/// The object of a part of a day's file: the first is 1.
pub fn part_name(file: &str, part: u32) -> String {
    format!("{}/{part:04}.csv", stem(file))
}

/// The file of a shard's movements of a day. It is the name of no object: its parts have theirs from it.
pub fn shard_file(day: &str, shard: &str) -> String {
    format!("settlement/{day}/{shard}.csv")
}

/// The object of the manifest.
pub fn manifest_name(file: &str) -> String {
    format!("{}.json", stem(file))
}

fn stem(file: &str) -> &str {
    file.strip_suffix(".csv").unwrap_or(file)
}

/// A part's row.
#[derive(Debug, Deserialize)]
pub(super) struct PartRow {
    name: String,
    lines: u64,
    totals: String,
    sha256: String,
}

impl PartRow {
    /// With the totals read.
    pub(super) fn read(self) -> serde_json::Result<Part> {
        let totals = serde_json::from_str(&self.totals)?;
        Ok(Part { name: self.name, lines: self.lines, sha256: self.sha256, totals })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(name: &str, lines: u64, kind: &str, currency: &str, minor: u64) -> Part {
        let totals = [(kind.to_owned(), [(currency.to_owned(), minor)].into())].into();
        Part { name: name.to_owned(), lines, sha256: "ab".to_owned(), totals }
    }

    #[test]
    fn a_manifest_has_the_sums_of_all_parts() {
        let parts = vec![
            part("a", 2, "capture", "usd", 300),
            part("b", 3, "capture", "usd", 50),
            part("c", 1, "refund", "eur", 7),
        ];
        let manifest = Manifest::of("2026-11-20", parts.clone()).unwrap();
        assert_eq!(manifest.lines, 6);
        let totals = serde_json::to_string(&manifest.totals).unwrap();
        assert_eq!(totals, r#"{"capture":{"usd":350},"refund":{"eur":7}}"#);
        let text = manifest.text().unwrap();
        assert!(text.ends_with("}\n") && text.contains(r#""name": "a""#), "{text}");
        assert_eq!(Manifest::of("2026-11-20", parts).unwrap().text().unwrap(), text);
    }

    #[test]
    fn no_manifest_has_a_sum_that_is_cut_off() {
        let parts = vec![part("a", 1, "capture", "usd", u64::MAX), part("b", 1, "capture", "usd", 1)];
        assert_eq!(Manifest::of("2026-11-20", parts), Err(TooLarge));
    }

    #[test]
    fn parts_are_named_after_their_day() {
        let file = "settlement/2026-11-20.csv";
        assert_eq!(part_name(file, 1), "settlement/2026-11-20/0001.csv");
        assert_eq!(part_name(file, 12_345), "settlement/2026-11-20/12345.csv");
        assert_eq!(manifest_name(file), "settlement/2026-11-20.json");
        let of_shard = shard_file("2026-11-20", "g1-2026-11-003");
        assert_eq!(part_name(&of_shard, 2), "settlement/2026-11-20/g1-2026-11-003/0002.csv");
    }
}
