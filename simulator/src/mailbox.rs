//! The mailbox: what providers have sent to people. Nothing of it ever leaves the simulator.

use serde::de::DeserializeOwned;

use crate::failure::Outcome;
use crate::pages::{self, escape};
use crate::store::{Query, Store};

/// Rows of each section on the page: the newest.
pub const ROWS: i64 = 200;

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

/// What one provider has sent.
pub struct Section {
    /// Its heading.
    pub heading: &'static str,
    /// List items in HTML, the newest first.
    pub items: String,
    /// The sentence that stands where nothing was sent.
    pub none: &'static str,
}

/// `GET /_sim/mailbox`
pub fn page(sections: &[Section]) -> String {
    let list = |section: &Section| match section.items.as_str() {
        "" => format!("<p class=\"pad\">{}</p>", section.none),
        items => format!("<ul>{items}</ul>"),
    };
    let sections: String = sections
        .iter()
        .map(|section| {
            let heading = section.heading;
            format!("<section><h2>{heading}</h2><div class=\"card\">{}</div></section>", list(section))
        })
        .collect();
    styled(
        "Mailbox",
        &format!(
            "<h1>Mailbox</h1><p>What was sent here, newest first. Nothing of it left the simulator.</p>{sections}"
        ),
    )
}

/// A page of the mailbox around its content.
pub fn styled(title: &str, content: &str) -> String {
    pages::styled(title, STYLE, "", content)
}

/// The objects that a query matches.
pub fn read<T: DeserializeOwned>(store: &dyn Store, query: &Query) -> Outcome<Vec<T>> {
    let rows = store.list(query)?;
    Ok(rows.iter().map(|row| serde_json::from_str(&row.body)).collect::<Result<Vec<T>, _>>()?)
}

/// `2026-11-21T15:04:05+00:00` for a person.
pub fn time(created_at: &str) -> String {
    let shown = created_at.get(..19).unwrap_or(created_at).replace('T', " ");
    format!("<time datetime=\"{}\">{} UTC</time>", escape(created_at), escape(&shown))
}
