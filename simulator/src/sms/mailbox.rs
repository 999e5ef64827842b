//! The text messages that were sent, for people and for tests.

use serde_json::{Value, json};

use crate::failure::Outcome;
use crate::http::Reply;
use crate::mailbox::{ROWS, Section, read, time};
use crate::pages::escape;
use crate::sms::message::{MESSAGE, Message};
use crate::store::{Query, Store};

/// `GET /_sim/messages`, with `reference=`: the text messages, oldest first.
pub fn list(store: &dyn Store, reference: Option<String>) -> Outcome<Reply> {
    let query = Query { labels: reference.into_iter().collect(), oldest_first: true, ..Query::all(MESSAGE) };
    Ok(Reply::json(200, &json!({ "messages": read::<Value>(store, &query)? })))
}

/// The text messages on the page of the mailbox.
pub fn section(store: &dyn Store) -> Outcome<Section> {
    let items: String = read::<Message>(store, &Query { limit: ROWS, ..Query::all(MESSAGE) })?
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
    Ok(Section { heading: "Text messages", items, none: "No text message yet." })
}
