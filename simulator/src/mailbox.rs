//! What was sent, for people and for tests: the emails and the text messages. None ever leaves the simulator.
//!
//! An email's HTML is somebody else's: it is shown in a frame without scripts, forms, an origin or any request to the network. Its links
//! open in a new tab.

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::errors::Outcome;
use crate::http::Reply;
use crate::pages::{self, escape};
use crate::resend::Email;
use crate::sms::Message;
use crate::store::{Kind, Query, Store};

/// Rows of each kind on the page: the newest.
const ROWS: i64 = 200;

/// What the page of an email may load besides its own styles: pictures that are part of it.
const CONTENT_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

const STYLE: &str = "\
main{max-width:52rem}h2{font-size:1.1rem;margin:2rem 0 .75rem}ul{list-style:none;margin:0;padding:0}\
li{border-bottom:1px solid var(--line);padding:.9rem 1.25rem}li:last-child{border:0}li p{overflow-wrap:anywhere}\
.line{display:flex;flex-wrap:wrap;gap:.15rem 1rem;justify-content:space-between;align-items:baseline}.line time{color:var(--soft);\
font-size:.85rem;white-space:nowrap}.line a,.line strong{font-weight:600;overflow-wrap:anywhere;max-width:calc(100% - 12.5rem)}.small{font-size:.85rem}.body{color:var(--ink);\
white-space:pre-wrap}.back{display:inline-block;margin-bottom:1rem}.facts{display:grid;grid-template-columns:max-content 1fr;gap:.25rem 1rem;\
margin:1rem 0 1.5rem}.facts div{display:contents}.facts dd,.facts dt{font-size:.9rem;overflow-wrap:anywhere}iframe{display:block;width:100%;height:70vh;\
min-height:24rem;border:0;background:#fff}pre{margin:0;padding:1.25rem;white-space:pre-wrap;overflow-wrap:anywhere;\
font:.9rem/1.5 ui-monospace,monospace}.card+.card{margin-top:1rem}summary{padding:.9rem 1.25rem;cursor:pointer}\
summary+pre{padding-top:.25rem}@media(max-width:36rem){.line a,.line strong{max-width:100%}}";

/// `GET /_sim/mailbox.json`: every email in full, oldest first.
pub fn emails(store: &dyn Store) -> Outcome<Reply> {
    let query = Query { oldest_first: true, ..Query::all(Kind::Email) };
    Ok(Reply::json(200, &json!({ "emails": read::<Value>(store, &query)? })))
}

/// `GET /_sim/messages`, with `reference=`: the text messages, oldest first.
pub fn messages(store: &dyn Store, reference: Option<String>) -> Outcome<Reply> {
    let query =
        Query { labels: reference.into_iter().collect(), oldest_first: true, ..Query::all(Kind::Message) };
    Ok(Reply::json(200, &json!({ "messages": read::<Value>(store, &query)? })))
}

/// `GET /_sim/mailbox`
pub fn page(store: &dyn Store) -> Outcome<Reply> {
    let newest = |kind| Query { limit: ROWS, ..Query::all(kind) };
    let emails: String = read::<Email>(store, &newest(Kind::Email))?
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
    let messages: String = read::<Message>(store, &newest(Kind::Message))?
        .iter()
        .map(|message| {
            let reference = message.reference.as_deref().map_or_else(String::new, |reference| {
                format!("<p class=\"small\">Reference <code>{}</code></p>", escape(reference))
            });
            format!(
                "<li><div class=\"line\"><strong>{}</strong>{}</div><p class=\"body\">{}</p>{reference}</li>",
                escape(&message.to),
                time(&message.created_at),
                escape(&message.body),
            )
        })
        .collect();
    let list = |items: String, none: &str| {
        if items.is_empty() { format!("<p class=\"pad\">{none}</p>") } else { format!("<ul>{items}</ul>") }
    };
    let content = format!(
        "<h1>Mailbox</h1><p>What was sent here, newest first. Nothing of it left the simulator.</p>\
         <section><h2>Emails</h2><div class=\"card\">{}</div></section>\
         <section><h2>Text messages</h2><div class=\"card\">{}</div></section>",
        list(emails, "No email yet."),
        list(messages, "No text message yet."),
    );
    Ok(Reply::html(200, pages::styled("Mailbox", STYLE, "", &content)))
}

/// `GET /_sim/mailbox/{id}`
pub fn email(store: &dyn Store, id: &str) -> Outcome<Reply> {
    let Some(email) = crate::resend::find(store, id)? else {
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
    Ok(Reply::html_under(200, pages::styled(&email.subject, STYLE, "", &content), CONTENT_POLICY))
}

fn read<T: DeserializeOwned>(store: &dyn Store, query: &Query) -> Outcome<Vec<T>> {
    let rows = store.list(query)?;
    Ok(rows.iter().map(|row| serde_json::from_str(&row.body)).collect::<Result<Vec<T>, _>>()?)
}

/// `2026-11-21T15:04:05+00:00` for a person.
fn time(created_at: &str) -> String {
    let shown = created_at.get(..19).unwrap_or(created_at).replace('T', " ");
    format!("<time datetime=\"{}\">{} UTC</time>", escape(created_at), escape(&shown))
}
