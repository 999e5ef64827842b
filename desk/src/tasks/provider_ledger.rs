//! The provider's books: pages of Stripe's payments as plain data.
//! <https://docs.stripe.com/api/payment_intents/list>

use serde::Deserialize;

use super::page::{Each, PageEnd, Unread, each, entry_path};
use once::call::FrozenRequest;

/// How a payment stands in the provider's books.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LedgerStatus {
    /// The outcome is open.
    Pending,
    /// Money is reserved.
    Authorized,
    /// Money was taken.
    Captured,
    /// Nothing was taken; on Stripe another try of the same payment may follow.
    Unpaid,
    /// It was canceled.
    Canceled,
}

impl LedgerStatus {
    /// As a break shows it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "open",
            Self::Authorized => "held",
            Self::Captured => "taken",
            Self::Unpaid => "nothing taken",
            Self::Canceled => "canceled",
        }
    }
}

/// One payment in the provider's books.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteRecord {
    /// The provider's id.
    pub id: String,
    /// How it stands.
    pub status: LedgerStatus,
    /// What was asked for, in minor units.
    pub amount_minor: u64,
    /// What was captured, in minor units.
    pub taken_minor: u64,
    /// What was refunded, in minor units.
    pub refunded_minor: u64,
    /// In lower case.
    pub currency: String,
    /// When it was created, in ms since the epoch.
    pub created_at_ms: u64,
    /// Our id, from its metadata, if we created it.
    pub resource: Option<String>,
}

/// A page of the books, the newest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The entries.
    pub entries: Vec<RemoteRecord>,
    /// Those that cannot be read, by their ids; each with why.
    pub unread: Vec<Unread>,
    /// Where it ends.
    pub end: PageEnd,
}

/// The list's query parameters besides the time range.
pub(super) const fn query() -> [(&'static str, &'static str); 1] {
    [("expand[]", "data.latest_charge")]
}

/// Asks for one payment.
pub fn entry_request(id: &str) -> FrozenRequest {
    let path = entry_path("/v1/payment_intents", id);
    FrozenRequest::new(format!("{path}?expand%5B%5D=latest_charge"), String::new())
}

/// Reads a page.
pub fn read_page(body: &str) -> Result<Page, String> {
    #[derive(Deserialize)]
    struct List {
        data: Vec<Intent>,
        has_more: bool,
    }
    let Ok(list) = serde_json::from_str::<List>(body) else {
        let Each { read, unread, end } = each::<Intent>(body)?;
        return Ok(Page { entries: read.into_iter().map(Intent::entry).collect(), unread, end });
    };
    let last = list.data.last().map(|intent| (intent.id.as_str(), Some(intent.created)));
    let end = PageEnd::new(last, list.has_more);
    Ok(Page { entries: list.data.into_iter().map(Intent::entry).collect(), unread: Vec::new(), end })
}

/// Reads one payment.
pub fn read_entry(body: &str) -> Result<RemoteRecord, String> {
    serde_json::from_str::<Intent>(body).map(Intent::entry).map_err(|error| error.to_string())
}

#[derive(Deserialize)]
struct Intent {
    id: String,
    status: String,
    amount: u64,
    #[serde(default)]
    amount_received: u64,
    currency: String,
    created: u64,
    #[serde(default)]
    metadata: Metadata,
    #[serde(default)]
    latest_charge: Option<Charge>,
}

#[derive(Default, Deserialize)]
struct Metadata {
    #[serde(default)]
    resource: Option<String>,
}

#[derive(Deserialize)]
struct Charge {
    #[serde(default)]
    amount_refunded: u64,
}

impl Intent {
    fn entry(self) -> RemoteRecord {
        RemoteRecord {
            status: match self.status.as_str() {
                "succeeded" => LedgerStatus::Captured,
                // What others had captured of it stays taken: the rest was canceled. https://docs.stripe.com/payments/multicapture
                "canceled" if self.amount_received > 0 => LedgerStatus::Captured,
                "requires_capture" => LedgerStatus::Authorized,
                "canceled" => LedgerStatus::Canceled,
                "requires_payment_method" => LedgerStatus::Unpaid,
                // `processing`, `requires_action`, `requires_confirmation`, and unknown ones: nothing is decided yet.
                _ => LedgerStatus::Pending,
            },
            id: self.id,
            amount_minor: self.amount,
            taken_minor: self.amount_received,
            refunded_minor: self.latest_charge.map_or(0, |charge| charge.amount_refunded),
            currency: self.currency,
            created_at_ms: self.created.saturating_mul(1000),
            resource: self.metadata.resource,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payment_is_asked_for_by_its_id() {
        assert_eq!(entry_request("pi_1/../x?").path, "/v1/payment_intents/pi_1x?expand%5B%5D=latest_charge");
    }

    #[test]
    fn a_page_is_read() {
        let body = r#"{"object": "list", "has_more": true, "data": [
            {"id": "pi_1", "status": "succeeded", "amount": 500, "amount_received": 400, "currency": "usd", "created": 7,
             "metadata": {"resource": "pay_x"}, "latest_charge": {"id": "ch_1", "amount_refunded": 30}},
            {"id": "pi_2", "status": "requires_action", "amount": 1, "amount_received": 0, "currency": "eur", "created": 6,
             "metadata": {}, "latest_charge": null}]}"#;
        let page = read_page(body).unwrap();
        let end = PageEnd { last: Some("pi_2".to_owned()), created_s: Some(6), has_more: true };
        assert_eq!(page.end, end);
        let [first, second] = page.entries.as_slice() else { panic!() };
        assert_eq!(first.status, LedgerStatus::Captured);
        assert_eq!((first.amount_minor, first.taken_minor, first.refunded_minor), (500, 400, 30));
        assert_eq!((first.created_at_ms, first.resource.as_deref()), (7_000, Some("pay_x")));
        assert_eq!((second.status, second.resource.as_deref()), (LedgerStatus::Pending, None));
        assert!(read_page("{}").is_err());
        assert!(page.unread.is_empty());
    }

    #[test]
    fn of_a_payment_that_was_canceled_what_was_captured_before_stays_taken() {
        let status = |received: u64| {
            let intent = serde_json::json!({ "id": "pi_1", "status": "canceled", "amount": 1000, "amount_received": received, "currency": "usd", "created": 7 });
            let page = serde_json::json!({ "data": [intent], "has_more": false });
            read_page(&page.to_string()).unwrap().entries[0].status
        };
        assert_eq!((status(700), status(0)), (LedgerStatus::Captured, LedgerStatus::Canceled));
    }

    #[test]
    fn an_entry_that_cannot_be_read_leaves_the_others_of_its_page() {
        let body = r#"{"object": "list", "has_more": true, "data": [
            {"id": "pi_1", "status": "succeeded", "amount": 500, "amount_received": 400, "currency": "usd", "created": 7},
            {"id": "pi_2", "status": "succeeded", "amount": null, "currency": "eur", "created": 6}]}"#;
        let page = read_page(body).unwrap();
        let [entry] = page.entries.as_slice() else { panic!() };
        assert_eq!((entry.id.as_str(), entry.taken_minor), ("pi_1", 400));
        let end = PageEnd { last: Some("pi_2".to_owned()), created_s: Some(6), has_more: true };
        assert_eq!((page.end, page.unread[0].id.as_str(), page.unread.len()), (end, "pi_2", 1));
        assert!(
            read_page(r#"{"has_more": false, "data": [{"amount": 1}]}"#).is_err(),
            "of one without an id nothing can be asked"
        );
        let odd = |number: usize| {
            let data: Vec<_> =
                (0..number).map(|at| serde_json::json!({ "id": format!("pi_{at}"), "created": 1 })).collect();
            read_page(&serde_json::json!({ "data": data, "has_more": false }).to_string())
        };
        assert_eq!(odd(10).unwrap().unread.len(), 10);
        assert!(
            odd(11).unwrap_err().starts_with("11 entries of a page cannot be read, as pi_10: "),
            "not one, but all"
        );
    }
}
