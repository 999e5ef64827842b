//! The emails that were sent, for people and for tests.
//!
//! An email's HTML is somebody else's: it is shown in a frame without scripts, forms, an origin or any request to the network. Its links
//! open in a new tab.

use serde_json::{Value, json};

use crate::failure::Outcome;
use crate::http::Reply;
use crate::mailbox::{ROWS, Section, read, styled, time};
use crate::pages::{self, escape};
use crate::resend::email::{self, EMAIL, Email};
use crate::store::{Query, Store};

/// What the page of an email may load besides its own styles: pictures that are part of it.
const CONTENT_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

/// `GET /_sim/mailbox.json`: every email in full, oldest first.
pub fn list(store: &dyn Store) -> Outcome<Reply> {
    let query = Query { oldest_first: true, ..Query::all(EMAIL) };
    Ok(Reply::json(200, &json!({ "emails": read::<Value>(store, &query)? })))
}

/// The emails on the page of the mailbox.
pub fn section(store: &dyn Store) -> Outcome<Section> {
    let items: String = read::<Email>(store, &Query { limit: ROWS, ..Query::all(EMAIL) })?
        .iter()
        .map(|email| {
            format!(
                "<li><div class=\"line\"><a href=\"/_sim/mailbox/{}\">{}</a>{}</div><p class=\"small\">To {}</p></li>",
                escape(&email.id),
                escape(&email.subject),
                time(&email.created_at),
                escape(&email.to.join(", ")),
            )
        })
        .collect();
    Ok(Section { heading: "Emails", items, none: "No email yet." })
}

/// `GET /_sim/mailbox/{id}`
pub fn page(store: &dyn Store, id: &str) -> Outcome<Reply> {
    let Some(email) = email::find(store, id)? else {
        return Ok(Reply::html(404, pages::message("There is no such email.")));
    };
    let fact = |name: &str, value: &str| format!("<div><dt>{name}</dt><dd>{}</dd></div>", escape(value));
    let mut facts = fact("From", &email.from) + &fact("To", &email.to.join(", "));
    if !email.reply_to.is_empty() {
        facts += &fact("Reply to", &email.reply_to.join(", "));
    }
    facts += &format!("<div><dt>Sent</dt><dd>{}</dd></div>", time(&email.created_at));
    let html = email.html.as_deref().map_or_else(String::new, |html| {
        format!(
            "<div class=\"card\"><iframe title=\"The email\" sandbox=\"allow-popups allow-popups-to-escape-sandbox\" \
             referrerpolicy=\"no-referrer\" srcdoc=\"{}\"></iframe></div>",
            escape(&format!("<!doctype html><base target=\"_blank\">{html}"))
        )
    });
    let text = email.text.as_deref().map_or_else(String::new, |text| {
        let open = if email.html.is_none() { " open" } else { "" };
        format!(
            "<details class=\"card\"{open}><summary>Plain text</summary><pre>{}</pre></details>",
            escape(text)
        )
    });
    let content = format!(
        "<a class=\"back\" href=\"/_sim/mailbox\">← Mailbox</a><h1>{}</h1><dl class=\"facts\">{facts}</dl>{html}{text}",
        escape(&email.subject),
    );
    Ok(Reply::html_under(200, styled(&email.subject, &content), CONTENT_POLICY))
}
