//! What the tasks keep to when they write into a bucket.

use worker::Conditional;

/// Only where nothing is: an object that is there is never written over.
pub(super) fn only_new() -> Conditional {
    Conditional { etag_does_not_match: Some("*".to_owned()), ..Conditional::default() }
}
