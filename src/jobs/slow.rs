//! Which endpoints were slow, as far as an isolate knows: each is tried by one message at a time, so that those of a dead one do not fill the batches in
//! which other shops' messages are.

/// How long an answer may take that holds up nobody, in ms.
const FAST_MS: u64 = 10_000;
/// How long a message that is tried keeps others from being tried, in ms, should it never end here: longer than an endpoint may take.
const TRIAL_MS: u64 = 20_000;
/// How many are remembered. A newer one takes the place of the last.
const ENDPOINTS_MAX: usize = 200;

/// Accounts, and until when a message is being tried, in ms since the epoch. Few are slow.
#[derive(Debug)]
pub(super) struct SlowEndpoints(Vec<(String, u64)>);

impl SlowEndpoints {
    /// None was slow.
    pub(super) const fn new() -> Self {
        Self(Vec::new())
    }

    /// Whether a message to an account's endpoint may begin.
    pub(super) fn may_begin(&mut self, account: &str, now_ms: u64) -> bool {
        let Some((_, tried_until_ms)) = self.0.iter_mut().find(|(of, _)| of == account) else { return true };
        let begins = *tried_until_ms <= now_ms;
        if begins {
            *tried_until_ms = now_ms.saturating_add(TRIAL_MS);
        }
        begins
    }

    /// A message that might begin was not sent after all.
    pub(super) fn let_go(&mut self, account: &str) {
        self.0.iter_mut().filter(|(of, _)| of == account).for_each(|(_, tried_until_ms)| *tried_until_ms = 0);
    }

    /// A message has ended that took so long, in ms.
    pub(super) fn ended(&mut self, account: &str, took_ms: u64) {
        self.0.retain(|(of, _)| of != account);
        if took_ms > FAST_MS {
            self.0.truncate(ENDPOINTS_MAX - 1);
            self.0.push((account.to_owned(), 0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_was_slow_is_tried_by_one_message_at_a_time_until_it_is_fast() {
        let mut slow = SlowEndpoints::new();
        assert!(slow.may_begin("ada", 0) && slow.may_begin("ada", 0), "as many as there are");
        slow.ended("ada", FAST_MS + 1);
        assert!(slow.may_begin("ada", 20_000), "that one comes again");
        assert!(!slow.may_begin("ada", 20_001) && slow.may_begin("bob", 20_001));
        assert!(!slow.may_begin("ada", 20_000 + TRIAL_MS - 1));
        assert!(slow.may_begin("ada", 20_000 + TRIAL_MS), "one that never ends is not waited for");
        slow.let_go("ada");
        assert!(slow.may_begin("ada", 40_001), "that one was not sent");
        assert!(!slow.may_begin("ada", 40_002));
        slow.ended("ada", 10);
        assert!(slow.may_begin("ada", 40_001) && slow.may_begin("ada", 40_001));
    }

    #[test]
    fn a_bounded_number_is_remembered() {
        let mut slow = SlowEndpoints::new();
        for number in 0..ENDPOINTS_MAX * 2 + 1 {
            slow.ended(&number.to_string(), FAST_MS + 1);
            assert!(slow.0.len() <= ENDPOINTS_MAX);
        }
    }
}
