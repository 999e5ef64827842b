//! The backoff between a job's attempts.

/// The delays, in seconds. After the attempt that follows the last one, a job is dead.
const PAUSES_S: [u32; 4] = [5, 60, 600, 3600];

/// The delay after this many failures, plus up to a quarter of jitter; `None` after the last attempt. `jitter_permille` is random, from
/// 0 to 1000.
pub fn backoff_s(failures: u32, jitter_permille: u16) -> Option<u32> {
    let level = usize::try_from(failures.saturating_sub(1)).ok()?;
    let pause_s = *PAUSES_S.get(level)?;
    Some(pause_s.saturating_add(pause_s * u32::from(jitter_permille.min(1000)) / 4000))
}

#[cfg(test)]
mod tests {
    use super::backoff_s;

    #[test]
    fn each_pause_is_longer_than_the_one_before_and_the_fifth_failure_is_the_last() {
        assert_eq!(
            [1, 2, 3, 4, 5].map(|failures| backoff_s(failures, 0)),
            [Some(5), Some(60), Some(600), Some(3600), None]
        );
        assert_eq!(backoff_s(4, 1000), Some(4500));
    }
}
