//! The time window of the overview.

use payments::utc;

const MINUTE_MS: u64 = 60_000;
const DAY_MS: u64 = 24 * 60 * MINUTE_MS;

/// How far back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Range {
    /// An hour, by the minute.
    Hour,
    /// A day, by the half hour.
    #[default]
    Day,
    /// A week, by three hours.
    Week,
}

impl Range {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Hour, Self::Day, Self::Week];

    /// As the address has it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Week => "week",
        }
    }

    /// From the word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|range| range.as_str() == word)
    }

    /// How long a bucket is, in ms, and how many there are.
    pub const fn buckets(self) -> (u64, usize) {
        match self {
            Self::Hour => (MINUTE_MS, 60),
            Self::Day => (30 * MINUTE_MS, 48),
            Self::Week => (180 * MINUTE_MS, 56),
        }
    }

    /// The buckets that end with the one that `now_ms` falls into: they begin at whole minutes and hours.
    pub const fn window(self, now_ms: u64) -> TimeWindow {
        let (bucket_ms, count) = self.buckets();
        let end_ms = (now_ms / bucket_ms + 1) * bucket_ms;
        TimeWindow {
            range: self,
            start_ms: end_ms.saturating_sub(bucket_ms * count as u64),
            bucket_ms,
            count,
        }
    }
}

/// A row of buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeWindow {
    /// How far back.
    pub range: Range,
    /// When the first one begins, in ms since the epoch.
    pub start_ms: u64,
    /// How long each one is, in ms.
    pub bucket_ms: u64,
    /// How many.
    pub count: usize,
}

impl TimeWindow {
    /// When a bucket begins, as people write it: short, in UTC.
    pub fn label(&self, bucket: usize) -> String {
        let at = utc(self.start_ms.saturating_add(self.bucket_ms.saturating_mul(bucket as u64)));
        let is_long = self.bucket_ms.saturating_mul(self.count as u64) > 2 * DAY_MS;
        let format = if is_long { "%-d %b" } else { "%H:%M" };
        at.map(|at| at.format(format).to_string()).unwrap_or_default()
    }

    /// Begins so many buckets later.
    pub const fn without_first(self, buckets: usize) -> Self {
        let start_ms = self.start_ms.saturating_add(self.bucket_ms.saturating_mul(buckets as u64));
        Self { start_ms, count: self.count.saturating_sub(buckets), ..self }
    }

    /// The same, exactly.
    pub fn moment(&self, bucket: usize) -> String {
        let at = utc(self.start_ms.saturating_add(self.bucket_ms.saturating_mul(bucket as u64)));
        at.map(|at| at.format("%-d %b %H:%M").to_string()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_bucket_holds_now() {
        let now_ms = 1_795_253_461_234;
        for range in Range::ALL {
            let window = range.window(now_ms);
            let last_ms = window.start_ms + window.bucket_ms * (window.count as u64 - 1);
            assert!((last_ms..last_ms + window.bucket_ms).contains(&now_ms), "{range:?}");
            assert_eq!(window.start_ms % 60_000, 0);
        }
    }
}
