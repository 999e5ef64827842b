//! Cookies: which of them a visitor is known by, and which of an answer are given again with a replay.

use serde::{Deserialize, Serialize};
use web::session::pairs;

use crate::pattern::is_like;
use crate::secret::Secret;

/// Sessions as frameworks and shops name them.
const SESSIONS: &[&str] = &[
    "sessionid",
    "PHPSESSID",
    "JSESSIONID",
    "ASP.NET_SessionId",
    ".AspNetCore.*",
    "laravel_session",
    "connect.sid",
    "session",
    "sid",
    "*_session",
    "*_session_id",
    "wordpress_logged_in_*",
    "wp_woocommerce_session_*",
];

/// Those of them that may have another value at each answer: the session itself stands in them, signed or encrypted (Laravel, Rails, Flask; the log-in of
/// ASP.NET Core, which is made anew as its time runs).
const RENEWED: &[&str] = &["laravel_session", "session", "*_session", ".AspNetCore.*"];
/// What is named as they are, and is an id that stays the same.
const LASTING: &[&str] = &[".AspNetCore.Session"];

/// Name and value of a `Set-Cookie` header.
fn set(header: &str) -> Option<(&str, &str)> {
    let (name, value) = header.split(';').next()?.split_once('=')?;
    Some((name.trim(), value.trim()))
}

/// A cookie as it was sent: its name, and what stands for its value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sent {
    name: String,
    digest: String,
}

/// What stands for the values of all cookies of a request.
pub fn sent(header: &str, secret: &Secret) -> Vec<Sent> {
    pairs(header)
        .map(|(name, value)| Sent { name: name.to_owned(), digest: digest(name, value, secret) })
        .collect()
}

fn digest(name: &str, value: &str, secret: &Secret) -> String {
    let mut digest = secret.digest("cookie");
    digest.add(name.as_bytes());
    digest.add(value.as_bytes());
    let mut hex = digest.hex();
    hex.truncate(32);
    hex
}

/// The values of the cookies of a session, of those that stay the same from one answer to the next, as `more` do by the word of the settings.
pub fn sessions<'a>(header: &'a str, more: &'a [String]) -> impl Iterator<Item = &'a str> {
    let is_named = |name: &str| is_one_of(name, more.iter().map(String::as_str));
    let lasts = move |name: &str| is_named(name) || (is_session(name, &[]) && !is_renewed(name));
    pairs(header).filter(move |(name, _)| lasts(name)).map(|(_, value)| value)
}

fn is_session(name: &str, more: &[String]) -> bool {
    is_one_of(name, SESSIONS.iter().copied().chain(more.iter().map(String::as_str)))
}

fn is_renewed(name: &str) -> bool {
    is_one_of(name, RENEWED.iter().copied()) && !is_one_of(name, LASTING.iter().copied())
}

fn is_one_of<'a>(name: &str, mut known: impl Iterator<Item = &'a str>) -> bool {
    let bare = name.strip_prefix("__Host-").or_else(|| name.strip_prefix("__Secure-")).unwrap_or(name);
    known.any(|known| is_like(known, bare) || is_like(known, name))
}

fn of<'a>(cookies: &'a [Sent], name: &str) -> Option<&'a str> {
    cookies.iter().find(|cookie| cookie.name == name).map(|cookie| cookie.digest.as_str())
}

/// Which cookies are a session's.
#[derive(Clone, Copy, Debug)]
pub struct Sessions<'a> {
    /// More names, beside the usual ones.
    pub more: &'a [String],
    /// Those that an answer sets and hides from scripts are, too. A client that says by itself who it is needs no such guess: what hides may be a load
    /// balancer's.
    pub hidden: bool,
}

/// Whether a browser is in the session in which the first request was: each cookie of a session is the one that was sent first, or the one
/// that the answer has set.
pub fn is_same_session(
    first: &[Sent],
    now: &[Sent],
    answered: &[&str],
    sessions: Sessions<'_>,
    secret: &Secret,
) -> bool {
    first
        .iter()
        .chain(now)
        .filter(|Sent { name, .. }| {
            is_session(name, sessions.more) || (sessions.hidden && is_hidden(name, answered))
        })
        .all(|Sent { name, .. }| {
            let has = of(now, name);
            let was_set = answered
                .iter()
                .filter_map(|header| set(header))
                .filter(|(given, _)| given == name)
                .any(|(_, value)| has == Some(digest(name, value, secret).as_str()));
            has == of(first, name) || was_set
        })
}

/// Whether an answer sets a cookie that no script can read.
fn is_hidden(name: &str, answered: &[&str]) -> bool {
    answered.iter().any(|header| {
        let is_http_only = || header.split(';').any(|part| part.trim().eq_ignore_ascii_case("httponly"));
        set(header).is_some_and(|(given, _)| given == name) && is_http_only()
    })
}

/// Whether a `Set-Cookie` of the stored answer is given again: only while the browser still sends for that name what it sent first. What it
/// has got since must not be put back.
pub fn is_given_again(header: &str, first: &[Sent], now: &[Sent]) -> bool {
    set(header).is_some_and(|(name, _)| of(first, name) == of(now, name))
}

/// The cookies of a request that goes on to this path of the same host, after these `Set-Cookie` headers of an answer: a cookie is kept under its name
/// alone, unless it is of another path.
pub fn after(header: &str, answered: &[String], path: &str) -> String {
    let mut cookies: Vec<(&str, &str)> = pairs(header).collect();
    for header in answered {
        let Some((name, value)) = set(header) else { continue };
        let attribute = |wanted: &str| {
            let mut attributes = header.split(';').skip(1).filter_map(|part| part.split_once('='));
            attributes
                .find(|(name, _)| name.trim().eq_ignore_ascii_case(wanted))
                .map(|(_, value)| value.trim())
        };
        let folder = attribute("path").unwrap_or("/").trim_end_matches('/');
        let is_of_path =
            path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        if !is_of_path {
            continue;
        }
        cookies.retain(|(given, _)| *given != name);
        let is_over = match attribute("max-age").map(str::parse::<i64>) {
            Some(Ok(age_s)) => age_s <= 0,
            _ => value.is_empty(),
        };
        if !is_over {
            cookies.push((name, value));
        }
    }
    cookies.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("; ")
}

/// A `Set-Cookie` of the origin as it stands for the gate's host: without the origin's own.
pub fn for_our_host(header: &str, origin_host: &str) -> String {
    let is_origins = |part: &str| {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        let host = origin_host.split(':').next().unwrap_or_default();
        let value = value.trim().trim_start_matches('.');
        name.trim().eq_ignore_ascii_case("domain") && (value == host || host.ends_with(&format!(".{value}")))
    };
    let parts: Vec<&str> = header.split(';').filter(|part| !is_origins(part)).collect();
    parts.join(";")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret() -> Secret {
        Secret::new("visitor", "key")
    }

    fn same(first: &str, now: &str, answered: &[&str]) -> bool {
        same_where(true, first, now, answered)
    }

    fn same_where(hidden: bool, first: &str, now: &str, answered: &[&str]) -> bool {
        let secret = secret();
        let sessions = Sessions { more: &["basket".to_owned()], hidden };
        is_same_session(&sent(first, &secret), &sent(now, &secret), answered, sessions, &secret)
    }

    #[test]
    fn of_a_client_that_says_who_it_is_only_what_is_named_is_a_session() {
        let set = ["__cf_bm=b; path=/; HttpOnly; Secure"];
        assert!(same_where(false, "__cf_bm=a", "__cf_bm=c", &set));
        assert!(!same_where(true, "__cf_bm=a", "__cf_bm=c", &set));
        assert!(!same_where(false, "sessionid=a", "sessionid=b", &set));
        assert!(!same_where(false, "basket=a", "basket=b", &set));
    }

    #[test]
    fn a_replay_is_for_the_session_that_sent_it_first() {
        assert!(same("sessionid=a; theme=x", "theme=y; sessionid=a", &[]));
        assert!(!same("sessionid=a", "sessionid=b", &[]));
        assert!(!same("sessionid=a", "", &[]));
        assert!(!same("", "sessionid=b", &[]));
        assert!(same("theme=x", "theme=y", &[]));
        assert!(!same("basket=1", "basket=2", &[]));
        assert!(!same("__Host-_redmine_session=1", "__Host-_redmine_session=2", &[]));
    }

    #[test]
    fn what_the_answer_hides_from_scripts_is_a_session() {
        let set = ["Redmine=b; path=/; HttpOnly"];
        assert!(same("Redmine=a", "Redmine=a", &set));
        assert!(same("Redmine=a", "Redmine=b", &set));
        assert!(!same("Redmine=a", "Redmine=c", &set));
        assert!(same("Redmine=a", "Redmine=c", &["Redmine=b; path=/"]));
    }

    #[test]
    fn a_session_that_is_new_at_each_answer_says_not_who_it_is() {
        let header =
            "laravel_session=1; __Host-_shop_session=2; session=3; language=en; sessionid=4; my_session_id=5";
        assert_eq!(sessions(header, &[]).collect::<Vec<_>>(), ["4", "5"]);
        let named = ["session".to_owned(), "language".to_owned()];
        assert_eq!(sessions(header, &named).collect::<Vec<_>>(), ["3", "en", "4", "5"]);
    }

    #[test]
    fn a_cookie_is_named_with_its_prefix_or_without() {
        for named in ["__Host-login", "login", "__Host-*"].map(str::to_owned) {
            let named = [named];
            assert_eq!(sessions("__Host-login=1; lang=en", &named).collect::<Vec<_>>(), ["1"], "{named:?}");
            let secret = secret();
            let [first, now] = ["__Host-login=1", "__Host-login=2"].map(|header| sent(header, &secret));
            let sessions = Sessions { more: &named, hidden: true };
            assert!(!is_same_session(&first, &now, &[], sessions, &secret), "{named:?}");
        }
        assert_eq!(sessions("login=1", &["__Host-login".to_owned()]).count(), 0, "another cookie");
    }

    #[test]
    fn the_log_in_of_asp_net_core_is_made_anew_and_its_session_is_not() {
        let header =
            ".AspNetCore.Identity.Application=1; __Host-.AspNetCore.Cookies=2; .AspNetCore.Session=3";
        assert_eq!(sessions(header, &[]).collect::<Vec<_>>(), ["3"]);
        let named = [".AspNetCore.Cookies".to_owned()];
        assert_eq!(sessions(header, &named).collect::<Vec<_>>(), ["2", "3"]);
        assert!(!same(".AspNetCore.Cookies=1", ".AspNetCore.Cookies=2", &[]), "it is a session all the same");
    }

    #[test]
    fn the_session_that_the_answer_has_begun_is_the_same() {
        assert!(same("", "sessionid=b", &["sessionid=b; Path=/; HttpOnly"]));
        assert!(same("sessionid=a", "sessionid=b", &["x=1", "sessionid=b"]));
        assert!(!same("sessionid=a", "sessionid=c", &["sessionid=b"]));
        assert!(!same("sessionid=a", "", &["sessionid=b"]));
    }

    #[test]
    fn a_cookie_is_given_again_while_the_browser_has_what_it_had() {
        let first = sent("sessionid=a; basket=1", &secret());
        let again = |header, now| is_given_again(header, &first, &sent(now, &secret()));
        assert!(again("sessionid=b; Path=/", "sessionid=a"));
        assert!(!again("sessionid=b; Path=/", "sessionid=b"));
        assert!(!again("sessionid=b; Path=/", ""));
        assert!(again("new=1", "sessionid=c"));
        assert!(!again("new=1", "new=1"));
    }

    #[test]
    fn what_an_answer_has_set_goes_on_with_the_request() {
        let to = |path, set: &[&str]| {
            after("a=1; b=2", &set.iter().map(ToString::to_string).collect::<Vec<_>>(), path)
        };
        assert_eq!(to("/checkout", &["a=3; Path=/; HttpOnly", "c=4"]), "b=2; a=3; c=4");
        assert_eq!(to("/checkout", &["a=x; max-age=0", "b=; Expires=Thu, 01 Jan 1970 00:00:00 GMT"]), "");
        assert_eq!(to("/checkout", &["a=3; path=/check", "c=4; path=/checkout/"]), "a=1; b=2; c=4");
        assert_eq!(to("/checkout", &["", "no pair"]), "a=1; b=2");
    }

    #[test]
    fn a_domain_that_is_the_origins_is_left_out() {
        assert_eq!(for_our_host("a=1; Domain=shop.example; Path=/", "shop.example:8000"), "a=1; Path=/");
        assert_eq!(for_our_host("a=1; domain=.example", "shop.example"), "a=1");
        assert_eq!(for_our_host("a=domain; Path=/", "shop.example"), "a=domain; Path=/");
    }
}
