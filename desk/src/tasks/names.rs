//! What the scheduled tasks are called, in the table of their runs and on the desk.

/// All of them, in their order.
pub(crate) const TASKS: [&str; 12] = [
    "inbox",
    "places",
    "sweep",
    "reconcile",
    "fetch_reports",
    "adyen_reports",
    "settle",
    "answers",
    "history",
    "plots",
    "forget",
    COUNTS,
];

/// The one that runs where Analytics Engine is read.
pub(crate) const COUNTS: &str = "counts";

/// In the table of runs: the newest ones of tasks that have an object of their own, where they have failed. They have an index.
pub(crate) const FAILING: &str =
    "task > 'reconcile:' AND task < 'reconcile:~' AND result ->> '$.error' IS NOT NULL";
/// The same of places that have an object of their own.
pub(crate) const FAILING_PLACES: &str =
    "task > 'place:' AND task < 'place:~' AND result ->> '$.error' IS NOT NULL";
/// The same of places whose newest run has something to say.
pub(crate) const TELLING_PLACES: &str = "task > 'place:' AND task < 'place:~' AND result <> '{}'";
