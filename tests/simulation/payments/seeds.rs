//! Histories in which something rare happens, by what is searched for: they are played before all others, because to find one anew takes up to
//! half a minute.
//!
//! ```text
//! SIM_PAYMENTS_RENEW=1 cargo test --test simulation protections      searches for all of them, and writes them down
//! ```
//!
//! After a change one of them may show nothing any more. Then its test searches on, so that what it says of the protection holds, and fails because
//! it would be slow from then on.

use std::path::PathBuf;

/// What is found among so many histories is searched for each time.
const FEW: u64 = 80;
/// What is found after so many should be written down.
const MANY: u64 = 2_000;

/// The seeds of a file: each line a name, and a seed.
pub(super) struct Seeds {
    file: PathBuf,
    known: Vec<(String, u64)>,
}

impl Seeds {
    /// Of a file in `seeds/`; none if they are to be renewed.
    pub(super) fn read(name: &str) -> Self {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/simulation/payments/seeds/");
        let file = PathBuf::from(format!("{folder}{name}.txt"));
        let text = match is_renewed() {
            true => String::new(),
            false => std::fs::read_to_string(&file).unwrap(),
        };
        let line = |line: &str| {
            let (name, seed) = line.rsplit_once(' ').unwrap();
            (name.to_owned(), seed.parse().unwrap())
        };
        Self { file, known: text.lines().map(line).collect() }
    }

    pub(super) fn of(&self, name: &str) -> impl Iterator<Item = u64> {
        self.known.iter().filter(move |(known, _)| known == name).map(|(_, seed)| *seed)
    }

    /// Where each was found in the end: those that are known must be among them, or they are useless.
    pub(super) fn compare(&self, found: &[(String, u64)]) {
        if is_renewed() {
            let rare = found.iter().filter(|(_, seed)| *seed >= FEW);
            return std::fs::write(&self.file, lines(rare)).unwrap();
        }
        let useless = self.known.iter().filter(|one| !found.contains(one));
        let missing = found.iter().filter(|one| one.1 >= MANY && !self.known.contains(one));
        let (useless, missing) = (lines(useless), lines(missing));
        assert!(
            useless.is_empty() && missing.is_empty(),
            "no protection is at fault, but {} is out of date, and this takes long.\n\
             shows nothing any more:\n{useless}to be written down:\n{missing}\
             renew it with: SIM_PAYMENTS_RENEW=1 cargo test --test simulation protections",
            self.file.display(),
        );
    }
}

fn is_renewed() -> bool {
    std::env::var_os("SIM_PAYMENTS_RENEW").is_some()
}

fn lines<'a>(seeds: impl Iterator<Item = &'a (String, u64)>) -> String {
    seeds.map(|(name, seed)| format!("{name} {seed}\n")).collect()
}
