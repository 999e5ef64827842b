//! What serde leaves out, of values that most often are as they began (`skip_serializing_if`).

/// Whether it is `false`.
pub const fn is_false(value: &bool) -> bool {
    !*value
}

/// Whether it is 0.
pub const fn is_zero(value: &u32) -> bool {
    *value == 0
}
