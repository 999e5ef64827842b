//! When what has an object and an alarm of its own runs, and what it is called.

use std::fmt;

use serde::{Deserialize, Serialize};

use messages::placement::ShardName;

/// From one run to the next, in ms.
pub const INTERVAL_MS: u64 = 300_000;
/// The longest pause, in ms: after runs that failed, and where there is nothing to do. An operator is told of lists that are so far behind.
pub const PAUSE_MAX_MS: u64 = 1_800_000;

/// What the names of all reconciliations begin with.
const RECONCILE: &str = "reconcile:";
/// The account of the deployment's own key, where others have their names: none of those is called like that.
const DEPLOYMENT: &str = "deployment";
/// What the names of the runs of places begin with.
pub(super) const PLACE: &str = "place:";
/// D1 among the places.
pub(super) const D1: &str = "D1";

/// What an object runs at its alarm. Its name is the object's, and that of its run in the table `runs`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScheduledTask {
    /// Compares the books of one account at Stripe with ours: a connected one, one with keys of its own, or `None` for that of the deployment's key.
    Reconcile(Option<String>),
    /// Does what is to be done in one place of the read model: a shard, or `None` for D1.
    Place(Option<ShardName>),
}

impl ScheduledTask {
    /// From its name. `None` for a name that this release does not know.
    pub fn parse(name: &str) -> Option<Self> {
        if let Some(place) = name.strip_prefix(PLACE) {
            return match place {
                D1 => Some(Self::Place(None)),
                shard => ShardName::parse(shard).map(|shard| Self::Place(Some(shard))),
            };
        }
        let account = name.strip_prefix(RECONCILE).filter(|account| !account.is_empty())?;
        Some(Self::Reconcile((account != DEPLOYMENT).then(|| account.to_owned())))
    }
}

impl fmt::Display for ScheduledTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reconcile(account) => {
                write!(f, "{RECONCILE}{}", account.as_deref().unwrap_or(DEPLOYMENT))
            }
            Self::Place(None) => write!(f, "{PLACE}{D1}"),
            Self::Place(Some(shard)) => write!(f, "{PLACE}{shard}"),
        }
    }
}

/// What the cron tells an object. It is safe to tell it any number of times.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wake {
    /// What it runs: the name of a [`ScheduledTask`].
    pub task: String,
    /// When it begins if nothing is set, in ms from now: not all at the same moment.
    pub after_ms: u64,
    /// An operator wants it now, whatever is set.
    pub is_now: bool,
}

impl Wake {
    /// When the alarm must be set to, in ms since the epoch, if it is set to that now. `None`: it stays.
    ///
    /// An alarm can be lost, also one that is still said to be set: it is past, and does not ring. One that is later than any pause was set by a clock that
    /// went wrong.
    pub fn alarm_to_set(&self, now_ms: u64, set_to_ms: Option<u64>) -> Option<u64> {
        let at_ms = now_ms.saturating_add(self.after_ms);
        let kept_ms = match self.is_now {
            true => now_ms..=at_ms,
            // While a run takes longer than its pause, it is past.
            false => now_ms.saturating_sub(PAUSE_MAX_MS)..=now_ms.saturating_add(PAUSE_MAX_MS),
        };
        let is_kept = set_to_ms.is_some_and(|set_to_ms| kept_ms.contains(&set_to_ms));
        (!is_kept).then_some(at_ms)
    }
}

/// How a run has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// There may be more to do soon.
    Done,
    /// There was nothing to do, and will not be for a while.
    Quiet,
    /// It has failed.
    Failed,
}

/// When the next run is due, in ms since the epoch, after one that began at `began_ms` and is over at `now_ms`. So many in a row have failed.
///
/// A pause is a tenth shorter or longer, as `permille` says (a random number from 0 to 1000), or up to a fifth shorter where it may be no longer. What
/// begins together, as the shards of each day do at midnight, would else ask D1 at the same moment for ever.
pub fn next_run_ms(began_ms: u64, now_ms: u64, ended: Ended, failures: u32, permille: u16) -> u64 {
    let pause_ms = match ended {
        Ended::Done => INTERVAL_MS,
        Ended::Quiet => PAUSE_MAX_MS,
        Ended::Failed => INTERVAL_MS << failures.saturating_sub(1).min(8),
    };
    let longest_ms = (pause_ms.saturating_add(pause_ms / 10)).min(PAUSE_MAX_MS);
    let shorter_ms = longest_ms / 5 * u64::from(1000 - permille.min(1000)) / 1000;
    began_ms.saturating_add(longest_ms - shorter_ms).max(now_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_found_by_its_name_and_what_a_newer_release_calls_another_is_none() {
        for account in [None, Some("acct_C"), Some("keys:shop-1")] {
            let task = ScheduledTask::Reconcile(account.map(str::to_owned));
            assert_eq!(ScheduledTask::parse(&task.to_string()), Some(task));
        }
        assert_eq!(ScheduledTask::Reconcile(None).to_string(), "reconcile:deployment");
        assert_eq!(ScheduledTask::Reconcile(Some("keys:a".to_owned())).to_string(), "reconcile:keys:a");
        for (place, name) in [(None, "place:D1"), (Some("g2-2026-11-003"), "place:g2-2026-11-003")] {
            let task = ScheduledTask::Place(place.and_then(ShardName::parse));
            assert_eq!(task.to_string(), name);
            assert_eq!(ScheduledTask::parse(name), Some(task));
        }
        for name in ["", "reconcile", "reconcile:", "place:", "place:d1", "settle:2026-01-01"] {
            assert_eq!(ScheduledTask::parse(name), None, "{name}");
        }
    }

    #[test]
    fn an_alarm_that_is_set_stays_and_a_lost_one_is_set_again() {
        let wake = |after_ms, is_now| Wake { task: "reconcile:deployment".to_owned(), after_ms, is_now };
        let told = wake(600, false);
        assert_eq!(told.alarm_to_set(1_000, None), Some(1_600));
        for set_to_ms in [0, 999, 1_000 + INTERVAL_MS, 1_000 + PAUSE_MAX_MS] {
            assert_eq!(told.alarm_to_set(1_000, Some(set_to_ms)), None, "{set_to_ms}");
        }
        assert_eq!(told.alarm_to_set(1_000, Some(1_001 + PAUSE_MAX_MS)), Some(1_600));
        let hung = told.alarm_to_set(1_001 + PAUSE_MAX_MS, Some(1_000));
        assert_eq!(hung, Some(1_601 + PAUSE_MAX_MS), "it was due long ago");
        let hurried = wake(0, true);
        assert_eq!(hurried.alarm_to_set(1_000, Some(1_001)), Some(1_000));
        assert_eq!(hurried.alarm_to_set(1_000, Some(1_000)), None, "it is due");
        assert_eq!(hurried.alarm_to_set(1_000, Some(900)), Some(1_000), "it may hang");
    }

    #[test]
    fn runs_that_fail_come_more_rarely_and_a_long_run_is_followed_at_once() {
        let pause = |ended, failures, permille| next_run_ms(7, 8, ended, failures, permille) - 7;
        let pauses = [1, 2, 3, 4, 5, u32::MAX].map(|failures| pause(Ended::Failed, failures, 1000));
        assert_eq!(pauses, [330_000, 660_000, 1_320_000, 1_800_000, 1_800_000, 1_800_000]);
        assert_eq!(pause(Ended::Done, 0, 1000), 330_000);
        assert_eq!(pause(Ended::Quiet, 0, 1000), PAUSE_MAX_MS);
        assert_eq!(next_run_ms(7, 400_007, Ended::Done, 0, 0), 400_007);
    }

    #[test]
    fn pauses_are_of_different_lengths_within_their_bounds() {
        let pause = |ended, permille| next_run_ms(7, 8, ended, 0, permille) - 7;
        let mut before = (0, 0);
        for permille in 0..=1000 {
            let pauses = (pause(Ended::Done, permille), pause(Ended::Quiet, permille));
            assert!(before.0 < pauses.0 && before.1 < pauses.1);
            assert!(pauses.1 <= PAUSE_MAX_MS, "a later alarm would count as lost");
            before = pauses;
        }
        assert_eq!(pause(Ended::Done, 0), 264_000);
        assert_eq!(pause(Ended::Done, 500), 297_000, "about every five minutes");
        assert_eq!(pause(Ended::Done, u16::MAX), 330_000);
    }
}
