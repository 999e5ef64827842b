//! What an answer of the origin means.
//!
//! | answer | meaning |
//! |---|---|
//! | 2xx, 3xx but 307 and 308 | done; with `done = "redirect"` a 2xx shows the form again, and other content may follow |
//! | 2xx that `failed_if` names; a redirect to `log_in`; 4xx; a status of `not_taken` | refused: the key is free again |
//! | 521, 523, 525, 526, 530 | never sent: the key is free again |
//! | all else, and none | unknown |
//!
//! The numbers from 520 on are [Cloudflare's](https://developers.cloudflare.com/support/troubleshooting/http-status-codes/cloudflare-5xx-errors/).

use serde::{Deserialize, Serialize};
use serde_json::Value;
use web::url::{Url, join};

use crate::pattern::is_like;

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
    /// An operator has found that it was not done: whatever comes next runs.
    NotDone,
}

/// The rules of a route.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Rules {
    /// See [`Done`].
    pub done: Done,
    /// See [`FailedIf`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_if: Option<FailedIf>,
    /// Paths at which one logs in; a star at the end stands for the rest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub log_in: Vec<String>,
    /// Statuses from 500 on that the origin answers before it has taken anything, as while it is maintained.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_taken: Vec<u16>,
}

/// An answer of the origin, as far as it tells what it means.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen<'a> {
    /// Its status.
    pub status: u16,
    /// Its body is JSON.
    pub is_json: bool,
    /// The address that has answered.
    pub address: &'a str,
    /// Where it leads, as it says it.
    pub location: &'a str,
    /// What was read of its body.
    pub body: &'a [u8],
}

impl Rules {
    /// What an answer means.
    pub fn judge(&self, seen: Seen<'_>) -> Ended {
        match seen.status {
            200..=299 if self.has_failed(seen.is_json, seen.body) => Ended::Refused,
            200..=299 if self.done == Done::Redirect => Ended::ShownAgain,
            300..=399 if self.asks_who(seen.address, seen.location) => Ended::Refused,
            // It was not done here, and nobody has followed it.
            307 | 308 => Ended::Unknown,
            200..=399 => Ended::Done,
            400..=499 => Ended::Refused,
            status if self.not_taken.contains(&status) => Ended::Refused,
            521 | 523 | 525 | 526 | 530 => Ended::NeverSent,
            _ => Ended::Unknown,
        }
    }

    /// Whether an answer of this address leads to where one logs in: nothing was done.
    pub fn asks_who(&self, address: &str, location: &str) -> bool {
        let to = join(address, location);
        !location.is_empty() && self.log_in.iter().any(|known| is_like(known, Url::split(&to).path))
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
        let means = |status| rules.judge(Seen { status, ..Seen::default() });
        for (statuses, ended) in [
            (&[200, 201, 204, 302, 303][..], Ended::Done),
            (&[400, 401, 403, 404, 409, 422, 429], Ended::Refused),
            (&[521, 523, 525, 526, 530], Ended::NeverSent),
            (&[307, 308, 500, 501, 502, 503, 504, 520, 522, 524, 599], Ended::Unknown),
        ] {
            statuses.iter().for_each(|status| assert_eq!(means(*status), ended, "{status}"));
        }
    }

    #[test]
    fn a_status_means_that_it_was_not_taken_where_the_shop_says_so() {
        let rules = Rules { not_taken: vec![503], ..Rules::default() };
        let means = |status| rules.judge(Seen { status, ..Seen::default() });
        assert_eq!([503, 502, 200].map(means), [Ended::Refused, Ended::Unknown, Ended::Done]);
    }

    #[test]
    fn where_a_redirect_is_done_another_answer_shows_the_form_again() {
        let rules = Rules { done: Done::Redirect, ..Rules::default() };
        let means = |status| rules.judge(Seen { status, ..Seen::default() });
        assert_eq!(
            [200, 302, 422, 500].map(means),
            [Ended::ShownAgain, Ended::Done, Ended::Refused, Ended::Unknown]
        );
    }

    #[test]
    fn a_failure_that_is_told_with_200_is_a_refusal() {
        let failed_if = Some(FailedIf { member: "result".to_owned(), equals: "failure".to_owned() });
        let rules = Rules { failed_if, ..Rules::default() };
        let means = |is_json, body: &str| {
            rules.judge(Seen { status: 200, is_json, body: body.as_bytes(), ..Seen::default() })
        };
        assert_eq!(means(true, r#"{"result":"failure"}"#), Ended::Refused);
        assert_eq!(means(true, r#"{"result":"success"}"#), Ended::Done);
        assert_eq!(means(false, r#"{"result":"failure"}"#), Ended::Done);
        assert_eq!(means(true, "{"), Ended::Done);
    }

    #[test]
    fn who_is_sent_to_log_in_has_done_nothing() {
        let log_in = vec!["/accounts/login/".to_owned(), "/wp-login*".to_owned()];
        let rules = Rules { log_in, ..Rules::default() };
        let address = "https://shop.example/accounts/7/order?x=1";
        let means = |location| rules.judge(Seen { status: 302, address, location, ..Seen::default() });
        for location in [
            "/accounts/login/?next=/checkout",
            "https://shop.example/accounts/login/",
            "//shop.example/accounts/login/",
            "../login/?next=/checkout",
            "/accounts/./login/#form",
            "../../wp-login.php",
            "/wp-login.php",
        ] {
            assert_eq!(means(location), Ended::Refused, "{location}");
        }
        for location in
            ["/accounts/login/done", "login/", "/thanks?from=/accounts/login/", "https://shop.example", ""]
        {
            assert_eq!(means(location), Ended::Done, "{location}");
        }
    }
}
