//! How an operator's action has ended: what it came to, and the sentence that says so.
//!
//! What it came to is a value of its own, and is stored beside the sentence: how a page shows it never depends on its words.

use std::fmt::Display;

/// What an action came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It is done, or was done before.
    Done,
    /// It has begun, and goes on by itself.
    Begun,
    /// It was not done, for a reason that the operator can do something about.
    Refused,
    /// It was not done, or not all of it.
    Failed,
}

/// How an action has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActionOutcome {
    /// What it came to.
    pub status: Status,
    /// The sentence, as the log has it.
    pub text: String,
}

impl Status {
    const ALL: [Self; 4] = [Self::Done, Self::Begun, Self::Refused, Self::Failed];

    /// As it is stored.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Begun => "begun",
            Self::Refused => "refused",
            Self::Failed => "failed",
        }
    }

    /// Of a row of the log. Those of earlier releases say it with their first words alone.
    pub fn read(stored: Option<&str>, outcome: &str) -> Self {
        let known = Self::ALL.into_iter().find(|status| Some(status.as_str()) == stored);
        known.unwrap_or_else(|| match outcome {
            _ if outcome.starts_with("refused") => Self::Refused,
            _ if ["failed", "read no further"].iter().any(|words| outcome.starts_with(words)) => Self::Failed,
            _ if outcome.starts_with("begun") => Self::Begun,
            _ => Self::Done,
        })
    }

    /// How a page tells of it.
    pub const fn tone(self) -> &'static str {
        match self {
            Self::Done | Self::Begun => "info",
            Self::Refused | Self::Failed => "warning",
        }
    }
}

impl ActionOutcome {
    /// It is done, or was done before.
    pub fn done(text: impl Into<String>) -> Self {
        Self { status: Status::Done, text: text.into() }
    }

    /// It has begun, and goes on by itself.
    pub fn begun(text: impl Into<String>) -> Self {
        Self { status: Status::Begun, text: text.into() }
    }

    /// It was not done, and why.
    pub fn refused(why: impl Display) -> Self {
        Self { status: Status::Refused, text: format!("refused: {why}") }
    }

    /// It was not done, or not all of it, and why.
    pub fn failed(why: impl Display) -> Self {
        Self { status: Status::Failed, text: format!("failed: {why}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tone_is_that_of_the_status_whatever_the_words_are() {
        for (outcome, tone) in [
            (ActionOutcome::done("set; the one before was refused"), "info"),
            (ActionOutcome::begun("it goes on by itself"), "info"),
            (ActionOutcome::refused("there is no such break"), "warning"),
            (
                ActionOutcome {
                    status: Status::Refused,
                    text: "stripe_secret_key refused: it is another account’s".to_owned(),
                },
                "warning",
            ),
            (ActionOutcome::failed("it is down"), "warning"),
        ] {
            let status = Status::read(Some(outcome.status.as_str()), &outcome.text);
            assert_eq!((status, status.tone()), (outcome.status, tone));
        }
    }

    #[test]
    fn a_row_of_an_earlier_release_is_read_by_its_first_words() {
        for (outcome, status) in [
            ("refused: there is no such break", Status::Refused),
            ("failed: it is down", Status::Failed),
            ("read no further: line 3", Status::Failed),
            ("begun", Status::Begun),
            ("refunded $10.00", Status::Done),
        ] {
            assert_eq!(Status::read(None, outcome), status, "{outcome}");
            assert_eq!(Status::read(Some("of a newer release"), outcome), status);
        }
    }
}
