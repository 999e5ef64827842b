//! Over how many objects the counts are spread.

/// The most objects that add up the counts: each is asked at every reading, and an invocation has 50 calls.
const SHARDS_MAX: u32 = 32;

/// `METRICS_SHARDS`: over how many objects the counts are spread.
pub fn read(configured: Option<String>) -> Result<u32, String> {
    let shards = configured.map_or(Ok(1), |text| text.trim().parse().map_err(drop));
    shards
        .ok()
        .filter(|shards| (1..=SHARDS_MAX).contains(shards))
        .ok_or_else(|| format!("METRICS_SHARDS must be a whole number from 1 to {SHARDS_MAX}, or left out."))
}
