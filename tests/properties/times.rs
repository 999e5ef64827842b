use once::context::Times;
use payments::engine::{Limits, context};
use proptest::prelude::*;

proptest! {
    #[test]
    fn a_backoff_stays_within_its_bounds(failures: u32, jitter: u16) {
        let backoff = |failures, jitter| context(0, jitter, Times::default(), Limits::default()).backoff_ms(failures);
        let delay_ms = backoff(failures, jitter);
        prop_assert!((250..=300_000).contains(&delay_ms));
        prop_assert!(delay_ms <= backoff(failures.saturating_add(1), jitter), "it never gets shorter");
        prop_assert!(backoff(failures, 0) * 2 >= delay_ms, "half of it is random");
        prop_assert!(delay_ms <= backoff(failures, 1000));
    }

    #[test]
    fn times_that_are_accepted_fit_together(
        lease_ms in 0..200_000u64, completer_ms in 0..3u64, retention_ms in 0..3u64,
        provider_window_ms in 0..100_000_000u64, provider_timeout_ms in 0..200_000u64, quiet_ms in 0..200_000u64,
        wait_ms in 0..60_000u64,
    ) {
        let times = Times {
            lease_ms, completer_ms, retention_ms, provider_window_ms, provider_timeout_ms, quiet_ms, wait_ms,
            ..Times::default()
        };
        let fits = completer_ms > 0
            && retention_ms > 0
            && provider_timeout_ms > 0
            && provider_timeout_ms < lease_ms
            && provider_timeout_ms < quiet_ms
            && wait_ms <= 30_000
            && provider_window_ms > 0
            && provider_window_ms + provider_timeout_ms + 600_000 <= 86_400_000;
        prop_assert_eq!(times.validate().is_ok(), fits, "{:?}", times.validate());
    }
}

#[test]
fn the_default_times_fit_together() {
    assert_eq!(Times::default().validate(), Ok(Times::default()));
}
