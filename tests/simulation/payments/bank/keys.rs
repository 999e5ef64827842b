//! What a provider remembers of the idempotency keys that it was sent.

use super::Entry;
use payments::providers::HttpAnswer;
use std::collections::BTreeMap;

/// What an idempotency key remembers.
pub(crate) enum Memory {
    /// Its answer, again.
    Stored(HttpAnswer),
    /// Its first request is at work.
    Executing,
    /// It was used with other parameters.
    Mismatch,
    /// Nothing: the execution may begin.
    Nothing,
}

/// The keys of a provider. They are kept for a time, then they execute anew.
pub(crate) struct Keys {
    entries: BTreeMap<String, Entry>,
    kept_ms: u64,
    pub(crate) pruned: u64,
    pub(crate) replayed: u64,
    pub(crate) in_use: u64,
}

impl Keys {
    pub(crate) const fn new(kept_ms: u64) -> Self {
        Self { entries: BTreeMap::new(), kept_ms, pruned: 0, replayed: 0, in_use: 0 }
    }

    pub(crate) fn recall(&mut self, now_ms: u64, key: &str, parameters: &str) -> Memory {
        if self.entries.get(key).is_some_and(|entry| entry.pruned_at_ms <= now_ms) {
            self.entries.remove(key);
            self.pruned += 1;
        }
        match self.entries.get(key) {
            None => Memory::Nothing,
            Some(entry) if entry.parameters != parameters => Memory::Mismatch,
            Some(Entry { stored: None, .. }) => {
                self.in_use += 1;
                Memory::Executing
            }
            Some(Entry { stored: Some(answer), .. }) => {
                self.replayed += 1;
                Memory::Stored(HttpAnswer { replayed: true, ..answer.clone() })
            }
        }
    }

    pub(crate) fn begin(&mut self, now_ms: u64, key: &str, parameters: &str) {
        let pruned_at_ms = now_ms + self.kept_ms;
        let entry = Entry { parameters: parameters.to_owned(), pruned_at_ms, stored: None };
        self.entries.insert(key.to_owned(), entry);
    }

    pub(crate) fn store(&mut self, key: &str, answer: &HttpAnswer) {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.stored = Some(answer.clone());
        }
    }

    pub(crate) fn forget(&mut self, key: &str) {
        self.entries.remove(key);
    }
}
