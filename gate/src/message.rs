//! What the gate says itself: a page for a person, problem details ([RFC 9457](https://www.rfc-editor.org/rfc/rfc9457)) for a client.

use askama::Template;
use serde_json::json;

/// Makes [`Say`] of its table: status, the last part of the problem's `type`, title and text.
macro_rules! says {
    ($($name:ident($status:literal, $slug:literal, $title:literal, $text:literal);)*) => {
        /// What it says.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Say {
            $(#[doc = concat!($title, ".")] $name,)*
        }

        impl Say {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            const fn facts(self) -> (u16, &'static str, &'static str, &'static str) {
                match self {
                    $(Self::$name => ($status, $slug, $title, $text),)*
                }
            }
        }
    };
}

says! {
    UnderWay(
        409, "request-in-progress", "It is on its way",
        "What you sent is still being worked on. Wait a moment, then look again: it is not sent twice."
    );
    Differs(
        422, "idempotency-key-reused", "This form was sent already",
        "It was sent and answered before, and what stands in it now is different. Nothing was sent this time."
    );
    AlreadyDone(
        409, "already-done", "This was sent already",
        "It was sent and done once. Its answer cannot be shown here again: look at your orders, or log in again."
    );
    Unknown(
        502, "outcome-unknown", "It is not known whether this arrived",
        "The site did not say whether it was done. It was not sent again, so that nothing happens twice. Look at your orders, or \
         your email, before you try again; the site's staff can find it by the reference."
    );
    NeverSent(
        503, "not-sent", "The site could not be reached",
        "Nothing was sent. Try again in a moment: it cannot happen twice."
    );
    NotDone(
        409, "not-done", "This was not done",
        "It was sent, and the site's staff have found that it was not done. Load the page again and send it once more."
    );
    NoAnswer(
        503, "no-answer", "The site did not answer",
        "This was passed on without a key: it is not known whether it arrived. Try again in a moment, if that does no harm."
    );
    Unreachable(
        503, "site-unreachable", "The site could not be reached",
        "It does not answer at the moment. Load this page again in a little while."
    );
    Old(
        409, "form-too-old", "This page was open for a long time",
        "What stands in it may not be true any more, and it may have been sent before. Nothing was sent now."
    );
    TooMany(
        429, "too-many-tries", "This form was sent very often",
        "Load the page that it stands on again, and send it from there."
    );
    KeyExpired(
        409, "idempotency-key-expired", "This Idempotency-Key has expired",
        "It was used before, and what was answered is not kept any more. Nothing was sent now: a new request takes a new key."
    );
    KeySpent(
        409, "limit-reached", "This Idempotency-Key was used too often",
        "What was sent with it was refused each time. Nothing was sent now: another try takes a new key."
    );
    KeyMissing(
        400, "idempotency-key-missing", "One more click is needed",
        "This form came without the key that keeps it from being sent twice. Nothing was sent yet."
    );
    KeyInvalid(
        400, "idempotency-key-invalid", "The Idempotency-Key is not valid",
        "A key is 1 to 255 visible ASCII characters, in double quotes or bare. Nothing was sent."
    );
    Unidentified(
        400, "client-unknown", "It is not known who sends this",
        "A key is its client's own, and this request says nowhere whose it is: neither by a header nor by a session that \
         stays the same. Nothing was sent. The site's staff can name the header that says it, in the gate's setting identity, \
         or the cookie that stays the same, in session."
    );
    CrossSite(
        403, "cross-site", "This came from another site",
        "It was not sent from a page of this site. Nothing was sent: open the page that it stands on here, and send it from there."
    );
    TooLarge(
        413, "too-large", "This is too large",
        "It has more bytes than this address takes. Nothing was sent."
    );
    Unreadable(
        400, "bad-request", "The request could not be read",
        "It broke off. Nothing was sent: send it again, it cannot happen twice."
    );
    Unavailable(
        503, "temporarily-unavailable", "This does not work at the moment",
        "It is not known whether what you sent has arrived. Send it again: it cannot happen twice."
    );
    Misconfigured(
        500, "misconfigured", "The gate is not set up",
        "A setting is missing or wrong; the log names it. Nothing was sent."
    );
    NothingHere(
        404, "not-found", "There is nothing here",
        "Nothing was sent with this key, or it was sent by somebody else."
    );
}

impl Say {
    /// The HTTP status.
    pub const fn status(self) -> u16 {
        self.facts().0
    }

    /// One word for the log.
    pub const fn slug(self) -> &'static str {
        self.facts().1
    }

    /// As problem details.
    pub fn problem(self, request_id: &str, reference: &str) -> Vec<u8> {
        let (status, slug, title, text) = self.facts();
        let mut problem = json!({
            "type": format!("/.paid-once/problems/{slug}"),
            "title": title,
            "status": status,
            "detail": text,
            "instance": request_id,
        });
        if let (Some(members), false) = (problem.as_object_mut(), reference.is_empty()) {
            members.insert("reference".to_owned(), reference.into());
        }
        problem.to_string().into_bytes()
    }

    /// What to do where it can be sent again, and no form here does it; empty where that is said already, or there is nothing to send.
    pub const fn closing(self) -> &'static str {
        match self {
            Self::Differs
            | Self::Unknown
            | Self::Old
            | Self::NeverSent
            | Self::KeyMissing
            | Self::Unreadable => {
                "Go back, load that page again, and send it from there if it is still needed."
            }
            _ => "",
        }
    }

    /// What a form's button does that sends the same again.
    pub const fn button(self) -> &'static str {
        match self {
            Self::UnderWay => "Look again",
            Self::Differs | Self::Old => "Send it as new",
            Self::Unknown => "It did not arrive: send it as new",
            _ => "Send",
        }
    }
}

/// A page.
#[derive(Template)]
#[template(path = "message.html")]
pub struct MessagePage<'a> {
    /// A few words.
    pub title: &'static str,
    /// What happened and what to do.
    pub text: &'static str,
    /// What to quote to the site's staff; empty if there is nothing to find.
    pub reference: &'a str,
    /// Where the answer can be seen; empty if it cannot.
    pub answer: &'a str,
    /// See [`Say::closing`].
    pub closing: &'static str,
    /// When it can be sent as new, as in "in 2 minutes"; empty if it need not be waited.
    pub quiet: String,
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
    /// What stands on its button.
    pub button: &'static str,
}

impl<'a> MessagePage<'a> {
    /// What is said, and nothing more.
    pub fn new(say: Say) -> Self {
        let (_, _, title, text) = say.facts();
        Self {
            title,
            text,
            reference: "",
            answer: "",
            closing: say.closing(),
            quiet: String::new(),
            form: None,
        }
    }

    /// With a reference.
    #[must_use]
    pub fn with_reference(self, reference: &'a str) -> Self {
        Self { reference, ..self }
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
            button: "Send",
        };
        let page =
            MessagePage { form: Some(form), ..MessagePage::new(Say::Unknown).with_reference("AB12-CD34") };
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
        let problem = String::from_utf8(Say::Unknown.problem("req_1", "AB12-CD34")).unwrap();
        assert!(problem.contains("outcome-unknown") && problem.contains("AB12-CD34"), "{problem}");
    }
}
