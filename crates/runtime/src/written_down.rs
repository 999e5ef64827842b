//! The shards of which this isolate knows that they are written down.

use std::collections::BTreeMap;

/// For how long it believes that, in ms: D1 may be taken back to an earlier moment, and does not know them any more.
const BELIEVED_MS: u64 = 300_000;

/// Their names, each with when it was known, in ms since the epoch.
pub(crate) struct WrittenDown(BTreeMap<String, u64>);

impl WrittenDown {
    /// None.
    pub(crate) const fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// Whether this one was, just now.
    pub(crate) fn has(&self, name: &str, now_ms: u64) -> bool {
        self.0.get(name).is_some_and(|at_ms| now_ms.saturating_sub(*at_ms) < BELIEVED_MS)
    }

    /// These are.
    pub(crate) fn add(&mut self, names: impl IntoIterator<Item = String>, now_ms: u64) {
        self.0.extend(names.into_iter().map(|name| (name, now_ms)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_not_believed_for_ever() {
        let mut known = WrittenDown::new();
        known.add(["one".to_owned()], 1_000);
        assert!(known.has("one", 1_000) && known.has("one", 1_000 + BELIEVED_MS - 1));
        assert!(!known.has("one", 1_000 + BELIEVED_MS), "D1 may have been taken back since");
        assert!(!known.has("another", 1_000));
        known.add(["one".to_owned()], 1_000 + BELIEVED_MS);
        assert!(known.has("one", 1_000 + BELIEVED_MS), "it was asked again");
    }
}
