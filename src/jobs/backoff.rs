//! The backoff between a job's attempts.

use messages::event::TOLD_FOR_MS;

/// The delays, in seconds. After the attempt that follows the last one, a job is dead.
const PAUSES_S: [u32; 4] = [5, 60, 600, 3600];
/// Those between the attempts of an outgoing webhook; the last one comes again and again. With its jitter it is below the 12 hours for which a
/// queue can delay a message, and below the day after which an untouched job counts as lost.
const DELIVERY_PAUSES_S: [u32; 7] = [5, 60, 600, 3600, 3 * 3600, 6 * 3600, 9 * 3600];

/// By how much longer what was not tried waits each time, in seconds, and how long at most. A message can come a hundred times: by then it has been
/// there for longer than an outgoing webhook is tried.
const PASSED_OVER_STEP_S: u32 = 60;
const PASSED_OVER_MAX_S: u32 = 2 * 3600;

/// What has been tried of a job.
#[derive(Clone, Copy, Debug)]
pub struct Tried {
    /// How many attempts have failed.
    pub failures: u32,
    /// How long ago the first one began, in ms.
    pub for_ms: u64,
}

/// What gives the delay before the next attempt, of what was tried and a random number up to 1000; `None` if there is no next one.
pub type Backoff = fn(Tried, u16) -> Option<u32>;

/// The delay after this many failures, plus up to a quarter of jitter; `None` after the last attempt. `jitter_permille` is random, from
/// 0 to 1000.
pub fn backoff_s(tried: Tried, jitter_permille: u16) -> Option<u32> {
    pause_s(&PAUSES_S, tried.failures, jitter_permille)
}

/// The same of a failure that ends with what somebody else must do: no attempt is the last one, and after the longest pause it comes again.
pub fn patient_backoff_s(tried: Tried, jitter_permille: u16) -> Option<u32> {
    longest_again_s(&PAUSES_S, tried.failures, jitter_permille)
}

/// The same of an outgoing webhook: for about three days. How often it was tried does not count, because an event can be on its way in two messages.
pub fn delivery_backoff_s(tried: Tried, jitter_permille: u16) -> Option<u32> {
    let has_time = tried.for_ms < TOLD_FOR_MS;
    longest_again_s(&DELIVERY_PAUSES_S, tried.failures, jitter_permille).filter(|_| has_time)
}

/// The delay of what was not tried, and had been passed over so many times before. Up to twice as long by jitter: all of an endpoint wait for the same place.
pub fn passed_over_s(times: u32, jitter_permille: u16) -> u32 {
    let pause_s = PASSED_OVER_STEP_S.saturating_mul(times.saturating_add(1)).min(PASSED_OVER_MAX_S);
    pause_s.saturating_add(pause_s * u32::from(jitter_permille.min(1000)) / 1000)
}

fn longest_again_s(pauses_s: &[u32], failures: u32, jitter_permille: u16) -> Option<u32> {
    pause_s(pauses_s, failures.min(u32::try_from(pauses_s.len()).ok()?), jitter_permille)
}

fn pause_s(pauses_s: &[u32], failures: u32, jitter_permille: u16) -> Option<u32> {
    let level = usize::try_from(failures.saturating_sub(1)).ok()?;
    let pause_s = *pauses_s.get(level)?;
    Some(pause_s.saturating_add(pause_s * u32::from(jitter_permille.min(1000)) / 4000))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pauses_of(backoff: Backoff, failures: &[u32]) -> Vec<Option<u32>> {
        failures.iter().map(|failures| backoff(Tried { failures: *failures, for_ms: 0 }, 0)).collect()
    }

    #[test]
    fn each_pause_is_longer_than_the_one_before_and_the_fifth_failure_is_the_last() {
        let pauses = pauses_of(backoff_s, &[1, 2, 3, 4, 5]);
        assert_eq!(pauses, [Some(5), Some(60), Some(600), Some(3600), None]);
        assert_eq!(backoff_s(Tried { failures: 4, for_ms: 0 }, 1000), Some(4500));
    }

    #[test]
    fn what_somebody_must_mend_is_tried_again_each_hour() {
        let pauses = pauses_of(patient_backoff_s, &[1, 2, 3, 4, 5, 90]);
        assert_eq!(pauses, [5, 60, 600, 3600, 3600, 3600].map(Some));
    }

    #[test]
    fn a_webhook_that_is_not_tried_waits_for_longer_than_it_is_tried_before_its_queue_could_give_it_up() {
        const QUEUE_DELIVERS: u32 = 100;
        const QUEUE_DELAYS_S: u32 = 12 * 3600;
        let pauses = (0..QUEUE_DELIVERS).map(|times| passed_over_s(times, 0));
        let all_s: u64 = pauses.clone().map(u64::from).sum();
        assert!(all_s * 1000 > TOLD_FOR_MS, "{all_s}");
        assert!(pauses.clone().zip(pauses.skip(1)).all(|(before_s, next_s)| before_s < next_s));
        assert_eq!((passed_over_s(0, 0), passed_over_s(0, 1000)), (60, 120));
        assert!(passed_over_s(u32::MAX, 1000) < QUEUE_DELAYS_S);
    }

    #[test]
    fn a_webhook_is_tried_for_three_days_with_pauses_that_its_queue_can_make() {
        const QUEUE_DELAYS_S: u32 = 12 * 3600;
        const QUEUE_KEEPS_MS: u64 = 4 * 86_400_000;
        const LOST_AFTER_S: u32 = 24 * 3600;
        for jitter in [0, 500, 1000] {
            let mut tried = Tried { failures: 1, for_ms: 0 };
            let mut before_s = 0;
            while let Some(pause_s) = delivery_backoff_s(tried, jitter) {
                assert!(pause_s >= before_s && pause_s < QUEUE_DELAYS_S && pause_s < LOST_AFTER_S);
                before_s = pause_s;
                tried.for_ms += u64::from(pause_s) * 1000;
                tried.failures += 1;
            }
            assert!((TOLD_FOR_MS..QUEUE_KEEPS_MS).contains(&tried.for_ms), "{tried:?}");
            assert!((12..=16).contains(&tried.failures), "{tried:?}");
        }
        // Two messages of one event count their attempts together, and it has its time all the same.
        let twice = Tried { failures: 30, for_ms: 3_600_000 };
        assert!(delivery_backoff_s(twice, 0).is_some());
    }
}
