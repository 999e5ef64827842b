//! The chrome of every page, as data, and the page of a problem. The Workers' own pages extend `templates/base.html`.
//!
//! askama escapes every value. No page has an inline script or style: the content security policy forbids them.

use askama::Template;

use crate::locale::Messages;
use crate::problem::Kind;

/// What every page needs.
#[derive(Clone, Debug)]
pub struct Site {
    /// Shown with the embedded simulator: test cards, no real money.
    pub demo: bool,
    /// Receipts are sent by email.
    pub sends_receipts: bool,
    /// `/docs` is at this address.
    pub has_docs: bool,
    /// Where this site is: `https://pay.example.com`.
    pub origin: String,
    /// The address of the style sheet, with its version.
    pub style: &'static str,
    /// The address of the script, with its version.
    pub script: &'static str,
    /// The language of a customer's page; any other is in English.
    pub t: &'static Messages,
}

/// A message above a form or a receipt.
#[derive(Clone, Debug)]
pub struct Notice {
    /// A few words: `Your card was declined`.
    pub title: String,
    /// One or two sentences: what happened, what was (not) charged, what to do.
    pub text: String,
    /// `error`, `warning` or `info`.
    pub tone: &'static str,
}

impl Notice {
    /// Of a tone, with a title and a text.
    pub fn new(tone: &'static str, title: impl Into<String>, text: impl Into<String>) -> Self {
        Self { title: title.into(), text: text.into(), tone }
    }
}

/// Any page that says no: 404, an expired form that cannot be offered again, a missing setting.
#[derive(Template)]
#[template(path = "problem.html")]
pub struct ProblemPage {
    /// See [`Site`].
    pub site: Site,
    /// The HTTP status.
    pub status: u16,
    /// A few words.
    pub title: String,
    /// What happened and what to do.
    pub detail: String,
    /// The request's id, to quote to support; empty on a documentation page.
    pub request_id: String,
    /// Where to go from here.
    pub link_href: String,
    /// The link's words.
    pub link_text: String,
}

impl ProblemPage {
    /// The detail, in pieces: what stands between two backticks is code. One without its second is a mark like any other.
    pub fn parts(&self) -> Vec<(bool, &str)> {
        match self.detail.matches('`').count() % 2 {
            0 => self.detail.split('`').enumerate().map(|(index, part)| (index % 2 == 1, part)).collect(),
            _ => vec![(false, self.detail.as_str())],
        }
    }

    /// What a kind of problem means, for whoever looks it up.
    pub fn explained(kind: Kind, site: Site, link_text: &str) -> Self {
        Self {
            site,
            status: kind.status(),
            title: kind.title().to_owned(),
            detail: kind.explanation().to_owned(),
            request_id: String::new(),
            link_href: "/".to_owned(),
            link_text: link_text.to_owned(),
        }
    }
}

/// In how many seconds a page that waits for an outcome looks again: at once while somebody waits, seldom when it takes long.
pub const fn refresh_s(age_ms: u64) -> u32 {
    match age_ms {
        0..15_000 => 2,
        15_000..120_000 => 5,
        _ => 20,
    }
}

/// The query of a page that is not to be loaded anew by itself.
pub const STILL: &str = "still";
/// In how many seconds it is loaded anew where no script looks: each time a screen reader starts over, and whoever does not want that must have
/// the time to say so.
const RELOAD_S: u32 = 20;

/// One input of a form.
#[derive(Clone, Debug, Default)]
pub struct Entry {
    /// What was entered, or the suggestion.
    pub value: String,
    /// What is wrong with it; empty if nothing.
    pub error: String,
}

/// The page of a ride or an order while its outcome is not known. It looks again by itself, with and without a script.
#[derive(Template)]
#[template(path = "status.html")]
pub struct StatusPage {
    /// See [`Site`].
    pub site: Site,
    /// What it is of: `Ride` or `Order`, in the page's language.
    pub what: &'static str,
    /// Nobody may find it: whoever has its address may see it.
    pub is_private: bool,
    /// The ride's public id, or the merchant's id of the order.
    pub id: String,
    /// The page's own address.
    pub path: String,
    /// `$20.00`
    pub total: String,
    /// In how many seconds its script looks again.
    pub refresh_s: u32,
    /// Without a script it is not loaded anew: see [`STILL`].
    pub is_still: bool,
    /// The provider has not said yet whether the card was charged; else the payment is still processing.
    pub in_doubt: bool,
    /// And has not for so long that nobody should wait for it.
    pub is_late: bool,
    /// The shop's page, to which it leads back.
    pub back_url: Option<String>,
}

impl StatusPage {
    /// In how many seconds it is loaded anew without a script.
    pub const fn reload_s(&self) -> u32 {
        RELOAD_S
    }

    /// The same page once more, as still as it is.
    pub fn again(&self) -> String {
        if self.is_still { self.still() } else { self.path.clone() }
    }

    /// The page that is not loaded anew.
    pub fn still(&self) -> String {
        format!("{}?{STILL}", self.path)
    }
}

/// After how long without an outcome a person is told that it could not be confirmed, in ms.
const LATE_MS: u64 = 3_600_000;

/// Whether that is so long ago.
pub fn is_late(since_ms: u64, now_ms: u64) -> bool {
    now_ms.saturating_sub(since_ms) >= LATE_MS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_code_in_a_problem_is_shown_as_code() {
        let site = Site {
            demo: false,
            sends_receipts: false,
            has_docs: true,
            origin: String::new(),
            style: "/s.css",
            script: "/s.js",
            t: &crate::locale::EN,
        };
        let page = |detail: &str| {
            let detail = detail.to_owned();
            ProblemPage { detail, ..ProblemPage::explained(Kind::NotFound, site.clone(), "Start") }
                .render()
                .unwrap()
        };
        assert!(page("Send `a<b>` again.").contains("Send <code>a&#60;b&#62;</code> again."));
        assert!(page("5` wide").contains("5` wide"));
        assert!(!page("plain").contains("<code>"));
    }
}
