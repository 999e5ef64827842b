//! What [`Payment::status`](super::Payment::status) can say.

/// The statuses of a payment, as the API says them.
pub const STATUSES: [&str; 10] = [
    "requires_action",
    "processing",
    "requires_capture",
    "succeeded",
    "capture_failed",
    "disputed",
    "canceled",
    "expired",
    "declined",
    "failed",
];
