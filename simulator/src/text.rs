//! Text that callers sent, as messages repeat it.

/// A caller's text, short enough for a message.
pub fn excerpt(text: &str) -> String {
    text.chars().take(60).collect()
}
