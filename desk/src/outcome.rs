//! What came of an operation that a button has begun, in words.

use serde_json::Value as Json;

use super::format;
use messages::message::ExecuteResult;
use payments::payment::operation::Refusal;

/// A result in words.
pub(super) fn said(result: ExecuteResult) -> String {
    match result {
        ExecuteResult::Finished { response, .. } => {
            let body: Json = serde_json::from_slice(&response.body).unwrap_or_default();
            let member = |name: &str| body.get(name).and_then(Json::as_str).unwrap_or_default().to_owned();
            if response.status < 400 {
                let amount = |name: &str| {
                    let minor = body.get(name).and_then(Json::as_u64).unwrap_or_default();
                    format::money(minor, &member("currency"))
                };
                match (member("object").as_str(), member("status").as_str()) {
                    ("refund", "succeeded") => format!("refunded {}", amount("amount")),
                    ("refund", "pending") => format!("the refund of {} is on its way", amount("amount")),
                    ("payment", "succeeded") => format!("captured {}", amount("amount_captured")),
                    ("payment", "canceled") => "voided: nothing is held any more".to_owned(),
                    (object, status) => format!("done: the {object} is {}", status.replace('_', " ")),
                }
            } else {
                format!("refused by the provider: {}", member("detail"))
            }
        }
        ExecuteResult::Pending { in_doubt: true, .. } => {
            "begun; the provider’s answer is not known yet; it is asked until it says".to_owned()
        }
        ExecuteResult::Pending { .. }
        | ExecuteResult::InProgress { .. }
        | ExecuteResult::Interrupted { .. } => "begun; it goes on by itself".to_owned(),
        ExecuteResult::Mismatch { .. } => "refused: this button was used with other entries".to_owned(),
        ExecuteResult::Refused(refusal) => match refusal {
            Refusal::NoPayment => "refused: there is no payment".to_owned(),
            Refusal::State { detail, .. } | Refusal::TooMuch { detail, .. } => format!("refused: {detail}"),
            Refusal::Amount { message } => format!("refused: the amount {message}"),
            Refusal::LimitReached { detail } => format!("refused: {detail}"),
            Refusal::LinkReplaced | Refusal::LinkEnded => {
                "refused: the link is not the order’s newest".to_owned()
            }
            Refusal::TooSoon { .. } => "refused: the order was tried too often in a row".to_owned(),
            Refusal::KeysUnusable => {
                "refused: the account’s own key at the provider cannot be opened: set it again on the account’s page".to_owned()
            }
            // The desk makes no customers.
            Refusal::Revision { .. } | Refusal::Field { .. } | Refusal::Overtaken => {
                "refused: this cannot be done at the desk".to_owned()
            }
        },
        ExecuteResult::Expired => "refused: this button was used long ago".to_owned(),
        ExecuteResult::NotOwner => "refused: the payment belongs to another account".to_owned(),
        ExecuteResult::NotStarted => "refused: nothing was begun: load the page again".to_owned(),
        ExecuteResult::RateLimited => "refused: too many requests: try again in a minute".to_owned(),
    }
}
