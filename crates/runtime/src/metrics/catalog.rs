//! The metrics: a closed list of families, each with a closed list of labels. Nothing from a request becomes a label.

use payments::payment::records::JobKind;
use payments::payment::statuses::STATUSES;

/// The Prometheus type of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows.
    Counter,
    /// Goes up and down; counted by its changes.
    Gauge,
    /// Durations, by their upper bounds.
    Histogram,
}

impl Kind {
    /// As the exposition names it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// What has a status whose changes are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entity {
    /// An idempotency key.
    Key,
    /// A payment.
    Payment,
}

impl Entity {
    /// Its statuses. All are shown, even those with a count of zero.
    pub const fn statuses(self) -> &'static [&'static str] {
        match self {
            Self::Key => &["open", "finished", "expired"],
            Self::Payment => &STATUSES,
        }
    }

    /// The gauge of how many there are in each.
    pub const fn gauge(self) -> Family {
        match self {
            Self::Key => Family::Keys,
            Self::Payment => Family::Payments,
        }
    }
}

/// A family of series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// Answers.
    Requests,
    /// Replays of a stored response.
    CacheHits,
    /// Those of them that were answered at the edge.
    EdgeReplays,
    /// Duplicates that waited for the first one's result.
    Waits,
    /// Refusals because the first request still runs.
    InProgress,
    /// Refusals because the key was used for another request.
    Conflicts,
    /// Requests that ran without a key.
    KeysMissing,
    /// Second charges that a replay or a wait prevented.
    ChargesSaved,
    /// Calls to a provider.
    ProviderCalls,
    /// How long they took, in ms; shown in seconds.
    ProviderDuration,
    /// Payments that entered a status.
    PaymentsEntered,
    /// Requests and alarms of objects, which Cloudflare bills.
    ObjectRequests,
    /// Rows written, including indexes, which Cloudflare bills.
    RowsWritten,
    /// Messages given to the queue.
    QueueMessages,
    /// Attempts of jobs, by outcome.
    Jobs,
    /// Keys by status.
    Keys,
    /// Unfinished keys.
    KeysOpen,
    /// Payments by status.
    Payments,
    /// How far behind the provider's lists are read, in seconds; computed when it is shown.
    ReconciliationLag,
}

impl Family {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Self; 19] = [
        Self::Requests,
        Self::CacheHits,
        Self::EdgeReplays,
        Self::Waits,
        Self::InProgress,
        Self::Conflicts,
        Self::KeysMissing,
        Self::ChargesSaved,
        Self::ProviderCalls,
        Self::ProviderDuration,
        Self::PaymentsEntered,
        Self::ObjectRequests,
        Self::RowsWritten,
        Self::QueueMessages,
        Self::Jobs,
        Self::Keys,
        Self::KeysOpen,
        Self::Payments,
        Self::ReconciliationLag,
    ];

    /// Its name, its kind, its labels, and what it counts.
    const fn facts(self) -> (&'static str, Kind, &'static [&'static str], &'static str) {
        use Kind::{Counter, Gauge, Histogram};
        match self {
            Self::Requests => (
                "paid_once_requests_total",
                Counter,
                &["route", "method", "outcome", "status"],
                "Requests answered, by class of status.",
            ),
            Self::CacheHits => (
                "paid_once_idempotency_cache_hits_total",
                Counter,
                &[],
                "Requests answered with the stored response of the same key.",
            ),
            Self::EdgeReplays => (
                "paid_once_edge_replays_total",
                Counter,
                &[],
                "Those of them that were answered at the edge, without the key's object.",
            ),
            Self::Waits => (
                "paid_once_concurrent_request_waits_total",
                Counter,
                &[],
                "Concurrent duplicates that waited for the result of the first request.",
            ),
            Self::InProgress => (
                "paid_once_idempotency_in_progress_total",
                Counter,
                &[],
                "Concurrent duplicates refused because the first request was still running.",
            ),
            Self::Conflicts => (
                "paid_once_idempotency_conflicts_total",
                Counter,
                &[],
                "Requests refused because their key was used for another request.",
            ),
            Self::KeysMissing => (
                "paid_once_idempotency_keys_missing_total",
                Counter,
                &[],
                "Requests run without an idempotency key.",
            ),
            Self::ChargesSaved => (
                "paid_once_charges_saved_total",
                Counter,
                &[],
                "Second charges that did not happen: duplicates of an operation that took money.",
            ),
            Self::ProviderCalls => (
                "paid_once_provider_calls_total",
                Counter,
                &["provider", "kind", "outcome"],
                "Calls to a payment provider.",
            ),
            Self::ProviderDuration => (
                "paid_once_provider_call_duration_seconds",
                Histogram,
                &["provider", "kind"],
                "How long calls to a payment provider took.",
            ),
            Self::PaymentsEntered => {
                ("paid_once_payments_total", Counter, &["status"], "Payments that entered a status.")
            }
            Self::ObjectRequests => (
                "paid_once_object_requests_total",
                Counter,
                &["by"],
                "Requests and alarms of Durable Objects.",
            ),
            Self::RowsWritten => (
                "paid_once_rows_written_total",
                Counter,
                &["store"],
                "Rows written, with those of indexes and alarms, to Durable Objects and to the read model.",
            ),
            Self::QueueMessages => (
                "paid_once_queue_messages_total",
                Counter,
                &[],
                "Messages given to the queue; each is written, read and deleted.",
            ),
            Self::Jobs => (
                "paid_once_jobs_total",
                Counter,
                &["kind", "outcome"],
                "Tries of jobs: done, failed (it is tried again), dead, handed_on (it goes on in the queue of emails).",
            ),
            Self::Keys => ("paid_once_keys", Gauge, &["status"], "Idempotency keys by status."),
            Self::KeysOpen => ("paid_once_keys_open", Gauge, &[], "Idempotency keys that are not finished."),
            Self::Payments => ("paid_once_payments", Gauge, &["status"], "Payments by status."),
            Self::ReconciliationLag => (
                "paid_once_reconciliation_lag_seconds",
                Gauge,
                &["source"],
                "How far behind the provider's lists are read.",
            ),
        }
    }

    /// As the exposition names it, and as it is stored.
    pub const fn name(self) -> &'static str {
        self.facts().0
    }

    /// How it is read.
    pub const fn kind(self) -> Kind {
        self.facts().1
    }

    /// The names of its labels.
    pub const fn labels(self) -> &'static [&'static str] {
        self.facts().2
    }

    /// What it counts, in one sentence.
    pub const fn help(self) -> &'static str {
        self.facts().3
    }

    /// From the stored name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|family| family.name() == name)
    }

    /// The labels of series that are shown from the start, as 0: a graph must not begin at the first event.
    pub fn initial_labels(self) -> Vec<Vec<&'static str>> {
        let of = |entity: Entity| entity.statuses().iter().map(|status| vec![*status]).collect();
        match self {
            Self::Keys => of(Entity::Key),
            Self::Payments | Self::PaymentsEntered => of(Entity::Payment),
            Self::ObjectRequests => vec![vec!["fetch"], vec!["alarm"]],
            Self::RowsWritten => vec![vec!["object"], vec!["read_model"]],
            Self::Jobs => JobKind::ALL
                .iter()
                .flat_map(|kind| {
                    ["done", "failed", "dead", "handed_on"].map(|outcome| vec![kind.as_str(), outcome])
                })
                .collect(),
            _ if self.labels().is_empty() => vec![Vec::new()],
            _ => Vec::new(),
        }
    }
}

/// The upper bounds of a histogram: in ms, and in seconds as they are shown and stored. The last one has no bound.
pub const BUCKETS: [(u64, &str); 10] = [
    (50, "0.05"),
    (100, "0.1"),
    (250, "0.25"),
    (500, "0.5"),
    (1_000, "1"),
    (2_500, "2.5"),
    (5_000, "5"),
    (10_000, "10"),
    (30_000, "30"),
    (u64::MAX, "+Inf"),
];

/// Which number of a series this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sample {
    /// The value of a counter or a gauge.
    Value,
    /// How many durations fell between the bound before and this one of [`BUCKETS`].
    Bucket(&'static str),
    /// The sum of the durations, in ms.
    SumMs,
}

impl Sample {
    /// The bucket of a duration in ms.
    pub fn bucket(ms: u64) -> Self {
        let bound = BUCKETS.iter().find(|(bound_ms, _)| ms <= *bound_ms);
        Self::Bucket(bound.map_or("+Inf", |(_, bound)| bound))
    }

    /// As it is stored.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Value => "",
            Self::Bucket(bound) => bound,
            Self::SumMs => "sum_ms",
        }
    }

    /// From the stored form.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "" => Some(Self::Value),
            "sum_ms" => Some(Self::SumMs),
            _ => BUCKETS.iter().find(|(_, bound)| *bound == text).map(|(_, bound)| Self::Bucket(bound)),
        }
    }
}

/// A method as a label.
pub fn method(method: &str) -> &'static str {
    let known = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
    known.into_iter().find(|known| *known == method).unwrap_or("other")
}

/// A status as a label.
pub const fn status_class(status: u16) -> &'static str {
    match status {
        100..=199 => "1xx",
        200..=299 => "2xx",
        300..=399 => "3xx",
        400..=499 => "4xx",
        _ => "5xx",
    }
}

/// A provider's call as a label, by its name within the operation.
pub fn call(name: &str) -> &'static str {
    let known = ["charge", "authorize", "capture", "void", "refund", "look_up"];
    known.into_iter().find(|known| *known == name).unwrap_or("other")
}
