//! What an answer of the origin means.
//!
//! | answer | meaning |
//! |---|---|
//! | 2xx, 3xx | done; with `done = "redirect"` a 2xx shows the form again, and other content may follow |
//! | 2xx that `failed_if` names; 4xx; 503 with `Retry-After` | refused: the key is free again |
//! | 521, 523, 525, 526, 530 | never sent: the key is free again |
//! | all else, and none | unknown |
//!
//! The numbers from 520 on are [Cloudflare's](https://developers.cloudflare.com/support/troubleshooting/http-status-codes/cloudflare-5xx-errors/).

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// When an answer is one that says that it is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Done {
    /// Any 2xx or 3xx.
    #[default]
    Answer,
    /// A redirect: invalid input is shown again with 200.
    Redirect,
}

/// A member of a JSON answer that says, with 200, that it has failed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FailedIf {
    /// The name of the member.
    pub member: String,
    /// Its value.
    pub equals: String,
}

/// How the operation of a key ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// It is done, and never done again.
    Done,
    /// The form was shown again: equal content gets that again, other content runs.
    ShownAgain,
    /// Refused: whatever comes next runs.
    Refused,
    /// The origin never got it.
    NeverSent,
    /// Nobody knows.
    Unknown,
}

/// The rules of a route.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Rules {
    /// See [`Done`].
    pub done: Done,
    /// See [`FailedIf`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_if: Option<FailedIf>,
}

impl Rules {
    /// What an answer means. `body` is what was read of it.
    pub fn judge(&self, status: u16, has_retry_after: bool, is_json: bool, body: &[u8]) -> Ended {
        match status {
            200..=299 if self.has_failed(is_json, body) => Ended::Refused,
            200..=299 if self.done == Done::Redirect => Ended::ShownAgain,
            200..=399 => Ended::Done,
            400..=499 => Ended::Refused,
            503 if has_retry_after => Ended::Refused,
            521 | 523 | 525 | 526 | 530 => Ended::NeverSent,
            _ => Ended::Unknown,
        }
    }

    fn has_failed(&self, is_json: bool, body: &[u8]) -> bool {
        let Some(FailedIf { member, equals }) = self.failed_if.as_ref().filter(|_| is_json) else {
            return false;
        };
        let Ok(Value::Object(members)) = serde_json::from_slice(body) else { return false };
        members.get(member).is_some_and(|value| match value {
            Value::String(text) => text == equals,
            other => serde_json::from_str(equals).is_ok_and(|equals: Value| equals == *other),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_means_what_the_table_says() {
        let rules = Rules::default();
        let means = |status, retry_after| rules.judge(status, retry_after, false, b"");
        for (statuses, ended) in [
            (&[200, 201, 204, 302, 303][..], Ended::Done),
            (&[400, 401, 403, 404, 409, 422, 429], Ended::Refused),
            (&[521, 523, 525, 526, 530], Ended::NeverSent),
            (&[500, 501, 502, 503, 504, 520, 522, 524, 599], Ended::Unknown),
        ] {
            statuses.iter().for_each(|status| assert_eq!(means(*status, false), ended, "{status}"));
        }
        assert_eq!(means(503, true), Ended::Refused);
        assert_eq!(means(500, true), Ended::Unknown);
    }

    #[test]
    fn where_a_redirect_is_done_another_answer_shows_the_form_again() {
        let rules = Rules { done: Done::Redirect, failed_if: None };
        assert_eq!(rules.judge(200, false, false, b""), Ended::ShownAgain);
        assert_eq!(rules.judge(302, false, false, b""), Ended::Done);
        assert_eq!(rules.judge(422, false, false, b""), Ended::Refused);
        assert_eq!(rules.judge(500, false, false, b""), Ended::Unknown);
    }

    #[test]
    fn a_failure_that_is_told_with_200_is_a_refusal() {
        let failed_if = Some(FailedIf { member: "result".to_owned(), equals: "failure".to_owned() });
        let rules = Rules { done: Done::Answer, failed_if };
        assert_eq!(rules.judge(200, false, true, br#"{"result":"failure"}"#), Ended::Refused);
        assert_eq!(rules.judge(200, false, true, br#"{"result":"success"}"#), Ended::Done);
        assert_eq!(rules.judge(200, false, false, br#"{"result":"failure"}"#), Ended::Done);
        assert_eq!(rules.judge(200, false, true, b"{"), Ended::Done);
    }
}
