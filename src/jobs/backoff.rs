//! The backoff between a job's attempts.

/// The delays, in seconds. After the attempt that follows the last one, a job is dead.
const PAUSES_S: [u32; 4] = [5, 60, 600, 3600];

/// What gives the delay before the next attempt, of how many have failed and a random number up to 1000.
pub type Backoff = fn(u32, u16) -> Option<u32>;

/// The delay after this many failures, plus up to a quarter of jitter; `None` after the last attempt. `jitter_permille` is random, from
/// 0 to 1000.
pub fn backoff_s(failures: u32, jitter_permille: u16) -> Option<u32> {
    let level = usize::try_from(failures.saturating_sub(1)).ok()?;
    let pause_s = *PAUSES_S.get(level)?;
    Some(pause_s.saturating_add(pause_s * u32::from(jitter_permille.min(1000)) / 4000))
}

/// The same of a failure that ends with what somebody else must do: no attempt is the last one, and after the longest pause it comes again.
pub fn patient_backoff_s(failures: u32, jitter_permille: u16) -> Option<u32> {
    let pauses = u32::try_from(PAUSES_S.len()).ok()?;
    backoff_s(failures.min(pauses), jitter_permille)
}

#[cfg(test)]
mod tests {
    use super::{backoff_s, patient_backoff_s};

    #[test]
    fn each_pause_is_longer_than_the_one_before_and_the_fifth_failure_is_the_last() {
        assert_eq!(
            [1, 2, 3, 4, 5].map(|failures| backoff_s(failures, 0)),
            [Some(5), Some(60), Some(600), Some(3600), None]
        );
        assert_eq!(backoff_s(4, 1000), Some(4500));
    }

    #[test]
    fn what_somebody_must_mend_is_tried_again_each_hour() {
        let pauses = [1, 2, 3, 4, 5, 90].map(|failures| patient_backoff_s(failures, 0));
        assert_eq!(pauses, [5, 60, 600, 3600, 3600, 3600].map(Some));
    }
}
