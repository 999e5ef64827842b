//! What can be asked for, parsed and complete; why it is refused; and the points from which a run of it goes on.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::payment::customer::CustomerRequest;
use crate::payment::id::PaymentId;
use crate::payment::money::{AmountMinor, Currency};
use crate::payment::provider::Provider;
use crate::payment::receipt_content::ReceiptContent;
use crate::payment::refund::RefundReason;
use once::id::ObjectId;

/// What a request asks for, parsed and complete: a run can be resumed from this and the rows alone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Operation {
    /// A ride, which only releases before have begun: it stays as they wrote it, so that one of them can still end it.
    #[serde(rename = "ride")]
    Retired(Map<String, Value>),
    /// `POST /payments`, and the checkout's form
    Payment(Box<PaymentRequest>),
    /// `POST /payments/{id}/capture`
    Capture(CaptureRequest),
    /// `POST /payments/{id}/void`
    Void(VoidRequest),
    /// `POST /payments/{id}/refunds`
    Refund(RefundRequest),
    /// `PUT /customers/{email}`
    Customer(Box<CustomerRequest>),
    /// Nobody asks for it: there is money on a try that was over.
    GiveBack(GiveBackRequest),
}

impl Operation {
    /// Its name in logs and timelines.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Retired(_) => "ride",
            Self::Payment(_) => "payment",
            Self::Capture(_) => "capture",
            Self::Void(_) => "void",
            Self::Refund(_) => "refund",
            Self::Customer(_) => "customer",
            Self::GiveBack(_) => "give_back",
        }
    }

    /// The figures against which it was confirmed, if it was.
    pub fn seen(&self) -> Option<&str> {
        match self {
            Self::Capture(request) => request.seen.as_deref(),
            Self::Void(request) => request.seen.as_deref(),
            Self::Refund(request) => request.seen.as_deref(),
            Self::Retired(_) | Self::Payment(_) | Self::Customer(_) | Self::GiveBack(_) => None,
        }
    }

    /// The address of what it makes or moves, known before it exists.
    pub fn resource_path(object: ObjectId) -> String {
        PaymentId::in_object(object).path()
    }
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PaymentRequest {
    /// How much.
    pub amount: AmountMinor,
    /// In which currency.
    pub currency: Currency,
    /// Whether the money is taken at once, else only reserved.
    pub capture: bool,
    /// The merchant's order: one is paid once.
    pub order_id: Option<String>,
    /// For the merchant.
    pub description: Option<String>,
    /// The merchant's own data, sorted by name.
    pub metadata: Vec<(String, String)>,
    /// Who takes the money.
    pub route: Route,
    /// Who takes it if the first one has failed definitively.
    pub fallback: Option<Route>,
    /// Where the person goes after the bank's page. Without it nobody is there to go to that page.
    pub return_url: Option<String>,
    /// To whom receipts go.
    #[serde(default)]
    pub receipt_email: Option<String>,
    /// What they are written from, beside the payment itself.
    #[serde(default, skip_serializing_if = "ReceiptContent::is_empty")]
    pub receipt_content: ReceiptContent,
    /// Our own site, to which the bank's page sends the browser back first.
    pub origin: String,
    /// What that address must carry to lead on to `return_url`. A request of before has none: it leads nowhere.
    #[serde(default)]
    pub return_key: Option<String>,
    /// The page to which a form leads.
    pub page: Option<String>,
    /// The revision of the link through which the order is paid; the shop's own server uses none.
    #[serde(default)]
    pub link_revision: Option<u32>,
}

/// A provider, and what pays there.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Route {
    /// Which provider.
    pub provider: Provider,
    /// The provider's token of what pays.
    pub payment_method: String,
    /// The provider's customer.
    pub customer: Option<String>,
    /// The merchant's account there: Adyen's merchant account; at Stripe a connected account, or one with [keys of its own](super::own_keys).
    pub merchant_account: Option<String>,
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CaptureRequest {
    /// How much; all that was reserved if it is not said. What is not captured is given up.
    pub amount: Option<AmountMinor>,
    /// The attempt that is captured: that one and no other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// The payment's [figures](super::Payment::figures) against which it was confirmed: it is refused once they are others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<String>,
}

/// What is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct VoidRequest {
    /// The page to which a form leads.
    pub page: Option<String>,
    /// The attempt that is voided: that one and no other.
    #[serde(default)]
    pub attempt: Option<u32>,
    /// The revision of the link through which a person gives it up: only while it waits at the bank's page. One that was replaced or ended gives up
    /// nothing but its own.
    #[serde(default)]
    pub link_revision: Option<u32>,
    /// The payment's [figures](super::Payment::figures) against which it was confirmed: it is refused once they are others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<String>,
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RefundRequest {
    /// How much; all that is left if it is not said.
    pub amount: Option<AmountMinor>,
    /// Why.
    pub reason: RefundReason,
    /// The payment's [figures](super::Payment::figures) against which it was confirmed: it is refused once they are others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<String>,
}

/// What is to be given back.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct GiveBackRequest {
    /// The number of the try.
    pub attempt: u32,
    /// It was taken, and is refunded; else it is held, and canceled.
    pub refund: bool,
}

/// Why the state of things does not admit an operation. Nothing is written, and the key stays free: the state may change.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "refusal")]
pub enum Refusal {
    /// There is no payment here.
    NoPayment,
    /// The payment's state forbids it.
    State {
        /// The state: a status of the API, or `capturing`, `voiding`, `giving_back`, `not_given_back`.
        state: String,
        /// What can be done instead.
        detail: String,
    },
    /// It is more than there is.
    TooMuch {
        /// What there is, in minor units.
        available_minor: u64,
        /// A sentence about it.
        detail: String,
    },
    /// The currency does not allow the amount.
    Amount {
        /// What to send.
        message: String,
    },
    /// The order was tried too often in a row: the next try must wait.
    TooSoon {
        /// When it may begin, in ms since the epoch.
        retry_at_ms: u64,
    },
    /// A newer link to the order was made than the one that was used.
    LinkReplaced,
    /// The shop has ended the link that was used.
    LinkEnded,
    /// The customer is of another revision than the request wants to change.
    Revision {
        /// Its revision; 0 where there is none.
        revision: u32,
    },
    /// A parameter cannot be what it is, as things stand.
    Field {
        /// Its name.
        field: String,
        /// What to send.
        message: String,
    },
    /// It would be sent with keys that the account has [of its own](super::own_keys), and they cannot be used now.
    KeysUnusable,
    /// Another request about the same customer came before.
    Overtaken,
    /// There are as many tries, or as many keys, as there may be, or the record is full.
    LimitReached {
        /// Which limit, and what can be done instead.
        detail: String,
    },
}

/// The points of all flows, in the order in which each reaches those that are its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Point {
    /// One of a [retired](Operation::Retired) operation.
    Retired,
    /// What is to be moved is written down and reserved.
    Reserved,
}

impl once::domain::Point for Point {
    fn as_str(self) -> &'static str {
        match self {
            // Where a release before goes on from both of its points.
            Self::Retired => "ride_created",
            Self::Reserved => "reserved",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        match text {
            "ride_created" | "charge_created" => Some(Self::Retired),
            "reserved" => Some(Self::Reserved),
            _ => None,
        }
    }
}
