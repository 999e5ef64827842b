//! The object that adds up what all isolates count; the counts themselves are `runtime::metrics`.

mod metrics_object;
