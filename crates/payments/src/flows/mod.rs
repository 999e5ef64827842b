//! The flows: what each operation does, from its first phase to its response. Pure, one file each, top to bottom.
//!
//! A new key's flow is first asked whether the state of things [admits](once::flow::Flow::admit) it; what it needs is reserved in the same
//! transaction. Then it is called again and again with the rows as they are; it looks at its recovery point, does one
//! phase, and says how the phase ended ([`End`]). What it changed in the rows is committed together with that end, or not
//! at all.

pub mod capture;
pub mod close;
pub mod engine;
pub mod give_back;
pub mod order_link;
pub mod payment;
pub mod receipt;
pub mod refund;
pub mod resource;
pub mod tries;
pub mod void;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use self::engine::{CallState, End, Payments, Phase, ProviderCall, Rows, Settlement};
use crate::payment::Payment;
use crate::payment::id::PaymentId;
use crate::payment::records::record;
use once::context::Bug;
use once::flow::Admission;
use once::id::ObjectId;
use once::key::KeyHash;
use once::record::{Channel, StoredResponse};

/// What a request asks for, parsed and complete: a run can be resumed from this and the rows alone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Operation {
    /// A ride, which only releases before have begun: it stays as they wrote it, so that one of them can still end it.
    #[serde(rename = "ride")]
    Retired(Map<String, Value>),
    /// `POST /payments`, and the checkout's form
    Payment(Box<payment::PaymentRequest>),
    /// `POST /payments/{id}/capture`
    Capture(capture::CaptureRequest),
    /// `POST /payments/{id}/void`
    Void(void::VoidRequest),
    /// `POST /payments/{id}/refunds`
    Refund(refund::RefundRequest),
    /// Nobody asks for it: there is money on a try that was over.
    GiveBack(give_back::GiveBackRequest),
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
            Self::GiveBack(_) => "give_back",
        }
    }

    /// The address of what it makes or moves, known before it exists.
    pub fn resource_path(object: ObjectId) -> String {
        PaymentId::in_object(object).path()
    }
}

/// Why the state of things does not admit an operation. Nothing is written, and the key stays free: the state may change.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "refusal")]
pub enum Refusal {
    /// There is no payment here.
    NoPayment,
    /// The payment's state forbids it.
    State {
        /// The state: a status of the API, or `capturing`, `voiding`.
        state: String,
        /// What can be done instead.
        detail: String,
    },
    /// It is more than there is.
    TooMuch {
        /// What there is, in minor units.
        available_minor: u32,
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
    /// There are as many tries, or as many keys, as there may be.
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

/// What the phases do alike.
trait PhaseExt {
    fn channel(&self) -> Result<Channel, Bug>;
    fn payment(&mut self) -> Result<&mut Payment, Bug>;
    fn audit(&mut self, action: &'static str, subject: String, data: Value) -> Result<(), Bug>;
}

impl PhaseExt for Phase<'_> {
    fn channel(&self) -> Result<Channel, Bug> {
        Ok(self.key()?.channel)
    }

    fn payment(&mut self) -> Result<&mut Payment, Bug> {
        self.rows.resource.payment.as_mut().ok_or_else(|| Bug("no payment".into()))
    }

    fn audit(&mut self, action: &'static str, subject: String, data: Value) -> Result<(), Bug> {
        let actor = self.key()?.owner.clone();
        record(self.rows, actor, action, subject, data, self.ctx);
        Ok(())
    }
}

/// Whether a new key may begin its operation. Reserves what the operation needs; on a refusal, or an error, nothing may be
/// committed.
fn admit(operation: &Operation, phase: &mut Phase<'_>) -> Result<Admission<Payments>, Bug> {
    match operation {
        Operation::Retired(_) => Err(retired()),
        Operation::GiveBack(_) => Ok(Ok(None)),
        Operation::Payment(request) => payment::admit(request, phase),
        Operation::Capture(request) => capture::admit(request, phase),
        Operation::Void(request) => void::admit(request, phase),
        Operation::Refund(request) => refund::admit(request, phase),
    }
}

/// Whether a call has lost its point before its first send: the payment has moved since it was admitted. A send could only be
/// refused, or move money twice.
fn is_overtaken(call: &ProviderCall, rows: &Rows) -> bool {
    if call.sends > 0 {
        return false;
    }
    let Some(payment) = &rows.resource.payment else { return false };
    match call.name.as_str() {
        capture::CAPTURE => !capture::is_capturable(&payment.state),
        refund::REFUND => !refund::is_refundable(payment),
        _ => false,
    }
}

/// Why a call was not executed that has no answer.
fn not_executed(phase: &Phase<'_>, name: &str) -> (String, String) {
    let is_it = |call: &&ProviderCall| call.key_id == phase.key_id && call.name == name && call.sends == 0;
    let payment =
        phase.rows.resource.payment.as_ref().filter(|_| phase.rows.calls.iter().any(|call| is_it(&call)));
    match payment {
        Some(payment) => {
            let status = payment.status();
            ("payment_moved".to_owned(), format!("The payment was `{status}` before it could be sent."))
        }
        None => ("not_executed".to_owned(), "It did not reach the provider.".to_owned()),
    }
}

fn retired() -> Bug {
    Bug("an operation that is retired".into())
}

/// Runs the next phase of an operation.
fn run(operation: &Operation, phase: &mut Phase<'_>) -> Result<End, Bug> {
    match operation {
        Operation::Retired(_) => Err(retired()),
        Operation::Payment(request) => payment::run(request, phase),
        Operation::Capture(request) => capture::run(request, phase),
        Operation::Void(request) => void::run(request, phase),
        Operation::Refund(request) => refund::run(request, phase),
        Operation::GiveBack(request) => give_back::run(request, phase),
    }
}

/// The end of an operation: JSON for the API, the way to a page for a form.
fn respond(
    phase: &Phase<'_>,
    status: u16,
    location: &str,
    page: Option<&str>,
    body: &Value,
) -> Result<End, Bug> {
    let media_type = if status < 400 { "application/json" } else { "application/problem+json" };
    Ok(End::Response(match phase.channel()? {
        Channel::Api => StoredResponse {
            status,
            headers: vec![
                ("content-type".to_owned(), media_type.to_owned()),
                ("location".to_owned(), location.to_owned()),
            ],
            body: body.to_string().into_bytes(),
        },
        Channel::Form => StoredResponse {
            status: 303,
            headers: vec![("location".to_owned(), page.unwrap_or(location).to_owned())],
            body: Vec::new(),
        },
    }))
}

/// Whether a key's operation took money. Then each duplicate of it is a charge that did not happen.
pub fn took_money(rows: &Rows, key_hash: &KeyHash) -> bool {
    let Some(key) = rows.keys.iter().find(|key| key.key_hash == *key_hash) else {
        return false;
    };
    let mut calls = rows.calls.iter().filter(|call| call.key_id == key.key_id);
    calls.any(|call| matches!(&call.state, CallState::Settled(Settlement::Answered(reply)) if reply.result.took_money()))
}
