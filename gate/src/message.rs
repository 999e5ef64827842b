//! What the gate says itself: a page for a person ([`texts`](crate::texts)), problem details ([RFC 9457](https://www.rfc-editor.org/rfc/rfc9457)) for
//! a client.

use askama::Template;
use serde_json::json;
use web::locale::Locale;

use crate::config::Kind;
use crate::say::Say;
use crate::texts::Texts;

impl Say {
    /// As problem details: a script that sends a form is told what its visitor would be.
    pub fn problem(self, kind: Kind, request_id: &str, reference: &str) -> Vec<u8> {
        let (title, text) = match kind {
            Kind::Form => (Texts::of(Locale::En).page)(self),
            Kind::Api => self.to_client(),
        };
        let mut problem = json!({
            "type": format!("/.paid-once/problems/{}", self.slug()),
            "title": title,
            "status": self.status(),
            "detail": text,
            "instance": request_id,
        });
        if let (Some(members), false) = (problem.as_object_mut(), reference.is_empty()) {
            members.insert("reference".to_owned(), reference.into());
        }
        problem.to_string().into_bytes()
    }

    /// What to do where it can be sent again, and no form here does it; empty where that is said already, or there is nothing to send.
    const fn closing(self, t: &Texts) -> &'static str {
        match self {
            Self::Differs
            | Self::Unknown
            | Self::Old
            | Self::NeverSent
            | Self::KeyMissing
            | Self::RateLimited
            | Self::Unreadable => t.closing,
            _ => "",
        }
    }

    /// What a form's button does that sends the same again.
    const fn button(self, t: &Texts) -> &'static str {
        match self {
            Self::UnderWay => t.look_again,
            Self::Differs | Self::Old => t.send_as_new,
            Self::Unknown => t.send_not_arrived,
            _ => t.send,
        }
    }
}

/// A page.
#[derive(Template)]
#[template(path = "message.html")]
pub struct MessagePage<'a> {
    /// Its language.
    lang: &'static str,
    t: &'static Texts,
    say: Say,
    title: &'static str,
    /// What happened and what to do.
    text: &'static str,
    closing: &'static str,
    /// When it can be sent as new, such as "in 2 minutes"; empty if it need not be waited.
    quiet: String,
    /// What to quote to the site's staff; empty if there is nothing to find.
    pub reference: &'a str,
    /// Where the answer can be seen; empty if it cannot.
    pub answer: &'a str,
    /// A form with all fields of the one that was sent.
    pub form: Option<FormAgain<'a>>,
}

/// A form that sends the same fields.
pub struct FormAgain<'a> {
    /// Where it goes.
    pub action: &'a str,
    /// `multipart/form-data`, or nothing.
    pub enctype: &'static str,
    /// All of its fields.
    pub fields: Vec<(String, String)>,
    /// Its key.
    pub key: &'a str,
}

impl<'a> MessagePage<'a> {
    /// What is said to a person, and nothing more.
    pub fn new(say: Say, locale: Locale) -> Self {
        let t = Texts::of(locale);
        let (title, text) = (t.page)(say);
        let (reference, answer) = ("", "");
        let lang = locale.tag();
        Self {
            lang,
            t,
            say,
            title,
            text,
            closing: say.closing(t),
            quiet: String::new(),
            reference,
            answer,
            form: None,
        }
    }

    /// What a problem's `type` leads to: it is for whoever writes a client.
    pub fn explanation(say: Say) -> Self {
        let (title, text) = say.to_client();
        Self { title, text, closing: "", ..Self::new(say, Locale::En) }
    }

    /// So long the origin may still be at work on it, in ms: until then nothing is sent as new.
    #[must_use]
    pub fn quiet_for(self, quiet_ms: u64) -> Self {
        Self { quiet: self.t.within(quiet_ms), ..self }
    }

    fn button(&self) -> &'static str {
        if self.quiet.is_empty() { self.say.button(self.t) } else { self.t.look_again }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_entered_is_shown_as_text_alone() {
        let form = FormAgain {
            action: "/checkout?a=1&b=\"",
            enctype: "",
            fields: vec![("name".to_owned(), "\"><script>".to_owned())],
            key: "KEY",
        };
        let page = MessagePage {
            form: Some(form),
            reference: "AB12-CD34",
            ..MessagePage::new(Say::Unknown, Locale::En)
        };
        let html = page.render().unwrap();
        assert!(!html.contains("<script>"), "{html}");
        assert!(html.contains("AB12-CD34") && html.contains("value=\"KEY\""), "{html}");
    }

    #[test]
    fn each_problem_has_a_word_of_its_own() {
        let mut slugs: Vec<_> = Say::ALL.iter().map(|say| say.slug()).collect();
        slugs.sort_unstable();
        slugs.dedup();
        assert_eq!(slugs.len(), Say::ALL.len());
        let problem = String::from_utf8(Say::Unknown.problem(Kind::Api, "req_1", "AB12-CD34")).unwrap();
        assert!(problem.contains("outcome-unknown") && problem.contains("AB12-CD34"), "{problem}");
    }

    #[test]
    fn a_client_of_an_api_reads_nothing_of_pages_and_clicks() {
        for say in Say::ALL.iter().filter(|say| !matches!(say, Say::Old | Say::TooMany | Say::CrossSite)) {
            let (title, text) = say.to_client();
            for word in ["form", "click", "page", "button"] {
                assert!(!format!("{title} {text}").contains(word), "{}: {title} {text}", say.slug());
            }
        }
        let title = |kind| String::from_utf8(Say::KeyMissing.problem(kind, "req_1", "")).unwrap();
        assert!(title(Kind::Form).contains("One more click is needed"));
        assert!(title(Kind::Api).contains("The Idempotency-Key header is missing"));
    }
}
