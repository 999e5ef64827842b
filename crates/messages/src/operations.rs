//! What the desk asks of the payments Worker itself, by a service binding to its entrypoint `Operations`. Each is a POST.

/// Import a report: its bytes, with its `name` in the query. The answer is [`Uploaded`](crate::settlement::Uploaded).
pub const REPORTS_PATH: &str = "/reports";
/// Import an acknowledgement: its bytes. The answer is [`Imported`](crate::settlement::Imported), or nothing where there is no bucket.
pub const ACKS_PATH: &str = "/acks";
/// Whether this is the lab, in which everybody may read the counts: true or false.
pub const LAB_PATH: &str = "/lab";
/// The counts, after what its isolate has counted was sent: rows of counters.
pub const COUNTS_PATH: &str = "/counts";
/// The ids of the API accounts: a list of texts.
pub const ACCOUNTS_PATH: &str = "/accounts";
