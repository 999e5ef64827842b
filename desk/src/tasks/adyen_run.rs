//! One run of the import of Adyen's reports, or an upload: what it works with, and what it has used.

use std::cell::Cell;

use worker::Result;

use super::adyen_stores::Stores;
use messages::placement::LEAD_MS;

/// How much of a report is read at once, in bytes: some 1300 lines, which are one value in D1.
pub(super) const SLICE_BYTES: usize = 262_144;

/// How much a run does, and in which portions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// How much of a report is read at once, in bytes.
    pub(super) slice_bytes: usize,
    /// How many requests to shards a run makes before it leaves the rest to the next one: an invocation has
    /// [10,000](https://developers.cloudflare.com/workers/platform/limits/), which the tasks share.
    pub(super) requests: usize,
    /// How many shards are asked at least for the payments of a slice, where some are not found before: whole periods.
    pub(super) near_shards: usize,
    /// How many shards are asked at once for those that are not found there.
    pub(super) far_shards: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { slice_bytes: SLICE_BYTES, requests: 1_000, near_shards: 60, far_shards: 24 }
    }
}

/// An import at work: a run of the task, or an upload.
pub(super) struct Import<S> {
    pub(super) stores: S,
    /// `ADYEN_MERCHANT_ACCOUNT`, if Adyen is used with the deployment's key.
    pub(super) deployments: Option<String>,
    pub(super) limits: Limits,
    pub(super) now_ms: u64,
    /// Whether payments are known to be in shards, or when they were known not to be, in ms since the epoch.
    pub(super) is_many: Cell<bool>,
    pub(super) alone_at_ms: Cell<Option<u64>>,
    /// How many slices of reports were read.
    pub(super) slices: Cell<u32>,
    /// How many shards were asked, each time.
    pub(super) requests: Cell<usize>,
}

impl<S: Stores> Import<S> {
    pub(super) fn begin(stores: S, deployments: Option<String>) -> Self {
        Self {
            now_ms: stores.now_ms(),
            stores,
            deployments,
            limits: Limits::default(),
            is_many: Cell::new(false),
            alone_at_ms: Cell::new(None),
            slices: Cell::new(0),
            requests: Cell::new(0),
        }
    }

    /// Whether this run may ask more shards.
    pub(super) const fn may_go_on(&self) -> bool {
        self.requests.get() < self.limits.requests
    }

    /// Whether no payment can be in a shard. A layout begins later than it is set.
    pub(super) async fn is_d1_alone(&self) -> Result<bool> {
        let now_ms = self.stores.now_ms();
        if self.is_many.get() {
            return Ok(false);
        }
        if self.alone_at_ms.get().is_some_and(|at_ms| now_ms.saturating_sub(at_ms) < LEAD_MS / 2) {
            return Ok(true);
        }
        let is_alone = self.stores.layouts().await?.iter().all(|layout| layout.slots == 0);
        self.is_many.set(!is_alone);
        self.alone_at_ms.set(is_alone.then_some(now_ms));
        Ok(is_alone)
    }
}
