//! What has changed at Stripe, by its events: pages of them as plain data, and how far they were read.
//! <https://docs.stripe.com/api/events/list>
//!
//! An event is kept for 30 days. It says what to look at, however old that is; what it carries may be older than what is true.

use serde::Deserialize;
use serde_json::Value;

use super::books::{Entry, read_entry};
use crate::machine::call::FrozenRequest;

/// Entries on a page: the most that Stripe gives.
const PAGE_SIZE: u32 = 100;
/// How far back each pass begins before the end of the last one, in ms: events appear late, and clocks differ.
const OVERLAP_MS: u64 = 600_000;
/// What can change how a payment or its money stands. Stripe takes at most 20.
const TYPES: [&str; 14] = [
    "payment_intent.amount_capturable_updated",
    "payment_intent.canceled",
    "payment_intent.payment_failed",
    "payment_intent.processing",
    "payment_intent.requires_action",
    "payment_intent.succeeded",
    "charge.dispute.closed",
    "charge.dispute.created",
    "charge.expired",
    "charge.refund.updated",
    "charge.refunded",
    "charge.updated",
    "refund.failed",
    "refund.updated",
];

/// How far the events were read.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Cursor {
    /// All that happened until then was read, in ms since the epoch.
    pub through_ms: u64,
    /// Until when the pass reads that is under way, in ms since the epoch.
    pub until_ms: Option<u64>,
    /// The last event that it has read.
    pub after: Option<String>,
}

impl Cursor {
    /// Before the first pass, which begins at `from_ms` (since the epoch).
    pub const fn first(from_ms: u64) -> Self {
        Self { through_ms: from_ms.saturating_add(OVERLAP_MS), until_ms: None, after: None }
    }

    /// Goes on with the pass that is under way, or begins one that reads until `until_ms` (since the epoch).
    pub fn begin(&mut self, until_ms: u64) {
        self.until_ms.get_or_insert(until_ms);
    }

    /// Asks for the next page.
    pub fn request(&self) -> FrozenRequest {
        let from_s = (self.through_ms.saturating_sub(OVERLAP_MS) / 1000).to_string();
        let until_s = (self.until_ms.unwrap_or(self.through_ms) / 1000).to_string();
        let limit = PAGE_SIZE.to_string();
        let mut query =
            vec![("created[gte]", from_s.as_str()), ("created[lte]", &until_s), ("limit", &limit)];
        query.extend(TYPES.iter().map(|kind| ("types[]", *kind)));
        query.extend(self.after.as_deref().map(|id| ("starting_after", id)));
        let query = serde_urlencoded::to_string(query).unwrap_or_default();
        FrozenRequest { path: format!("/v1/events?{query}"), body: String::new() }
    }

    /// A page was read and worked on. Gives whether that was the last one of the pass.
    pub fn advance(&mut self, page: &Page) -> bool {
        if page.has_more && page.last.is_some() && page.last != self.after {
            self.after.clone_from(&page.last);
            return false;
        }
        self.through_ms = self.until_ms.take().unwrap_or(self.through_ms).max(self.through_ms);
        self.after = None;
        true
    }
}

/// Something that happened to a payment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The provider's id of the payment.
    pub payment: String,
    /// How the payment stood then, if the event says it.
    pub then: Option<Entry>,
}

/// A page of events, the newest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Those that are about a payment.
    pub changes: Vec<Change>,
    /// The last event on it.
    pub last: Option<String>,
    /// Whether older ones follow.
    pub has_more: bool,
}

/// Reads a page.
pub fn read_page(body: &str) -> Result<Page, String> {
    #[derive(Deserialize)]
    struct List {
        data: Vec<Event>,
        has_more: bool,
    }
    #[derive(Deserialize)]
    struct Event {
        id: String,
        data: Data,
    }
    #[derive(Deserialize)]
    struct Data {
        object: Value,
    }
    let list: List = serde_json::from_str(body).map_err(|error| error.to_string())?;
    let last = list.data.last().map(|event| event.id.clone());
    let changes = list.data.into_iter().filter_map(|event| change(event.data.object)).collect();
    Ok(Page { changes, last, has_more: list.has_more })
}

fn change(mut object: Value) -> Option<Change> {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
    if object.get("object").and_then(Value::as_str) != Some("payment_intent") {
        // An id, or the whole of it where it is expanded.
        let intent = object.get("payment_intent");
        let payment = text(intent).or_else(|| text(intent.and_then(|intent| intent.get("id"))))?;
        return Some(Change { payment, then: None });
    }
    // It is an id here: what was given back is not known.
    if let Some(fields) = object.as_object_mut() {
        fields.remove("latest_charge");
    }
    Some(Change { payment: text(object.get("id"))?, then: read_entry(&object.to_string()).ok() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tasks::books::Standing;

    #[test]
    fn a_pass_goes_on_page_by_page_and_the_next_one_overlaps_it() {
        let page = |last: &str, has_more| Page { changes: Vec::new(), last: Some(last.to_owned()), has_more };
        let mut cursor = Cursor::first(1_000_000_000);
        cursor.begin(2_000_000_000);
        let path = cursor.request().path;
        assert!(
            path.starts_with("/v1/events?created%5Bgte%5D=1000000&created%5Blte%5D=2000000&limit=100&types")
        );
        assert!(!cursor.advance(&page("evt_9", true)));
        // What has happened meanwhile does not move it.
        cursor.begin(3_000_000_000);
        assert!(cursor.request().path.ends_with("&starting_after=evt_9"));
        assert!(cursor.request().path.contains("created%5Blte%5D=2000000"));
        assert!(cursor.advance(&page("evt_1", false)));
        assert_eq!(cursor, Cursor { through_ms: 2_000_000_000, until_ms: None, after: None });
        cursor.begin(3_000_000_000);
        assert!(cursor.request().path.contains("created%5Bgte%5D=1999400&created%5Blte%5D=3000000"));
        // A list that does not go on ends the pass.
        let mut stuck = Cursor { after: Some("evt_1".to_owned()), ..cursor };
        assert!(stuck.advance(&page("evt_1", true)));
    }

    #[test]
    fn an_event_names_the_payment_and_says_how_it_stood() {
        let body = r#"{"has_more": true, "data": [
            {"id": "evt_4", "data": {"object": {"object": "refund", "id": "re_1", "payment_intent": "pi_2"}}},
            {"id": "evt_3", "data": {"object": {"object": "charge", "id": "ch_1", "payment_intent": {"id": "pi_3"}}}},
            {"id": "evt_2", "data": {"object": {"object": "charge", "id": "ch_2", "payment_intent": null}}},
            {"id": "evt_1", "data": {"object": {"object": "payment_intent", "id": "pi_1", "status": "succeeded", "amount": 500,
             "amount_received": 500, "currency": "usd", "created": 7, "metadata": {}, "latest_charge": "ch_3"}}}]}"#;
        let page = read_page(body).unwrap();
        let ids: Vec<&str> = page.changes.iter().map(|change| change.payment.as_str()).collect();
        assert_eq!(ids, ["pi_2", "pi_3", "pi_1"]);
        assert_eq!(page.changes[2].then.as_ref().unwrap().standing, Standing::Taken);
        assert_eq!((page.last.as_deref(), page.has_more), (Some("evt_1"), true));
        assert!(TYPES.len() <= 20);
    }
}
