//! What the scheduled tasks are called, in the table of their runs and on the desk.

/// All of them, in their order.
pub(crate) const TASKS: [&str; 9] = [
    "inbox",
    "sweep",
    "reconcile",
    "fetch_reports",
    "adyen_reports",
    "settle",
    "answers",
    "history",
    "forget",
];
