//! What came of what a button has begun, in words.

use serde_json::Value as Json;

use super::action_outcome::{ActionOutcome, Status};
use super::format;
use messages::message::ExecuteResult;
use payments::payment::operation::Refusal;
use payments::providers::Provider;

/// Whether this provider answers questions about a payment. Adyen tells what has changed by itself, and cannot be asked.
pub(super) fn can_be_asked(provider: &str) -> bool {
    Provider::parse(provider).is_none_or(Provider::answers_questions)
}

/// What came of checking with a provider.
pub(super) fn asked(provider: &str) -> &'static str {
    match can_be_asked(provider) {
        true => "the provider is being asked",
        false => "Adyen cannot be asked: what waited was taken up; look in the Customer Area",
    }
}

/// A result in words.
pub(super) fn said(result: ExecuteResult) -> ActionOutcome {
    match result {
        ExecuteResult::Finished { response, .. } => {
            let body: Json = serde_json::from_slice(&response.body).unwrap_or_default();
            let member = |name: &str| body.get(name).and_then(Json::as_str).unwrap_or_default().to_owned();
            if response.status >= 400 {
                let text = format!("refused by the provider: {}", member("detail"));
                return ActionOutcome { status: Status::Refused, text };
            }
            let amount = |name: &str| {
                let minor = body.get(name).and_then(Json::as_u64).unwrap_or_default();
                format::money(minor, &member("currency"))
            };
            ActionOutcome::done(match (member("object").as_str(), member("status").as_str()) {
                ("refund", "succeeded") => format!("refunded {}", amount("amount")),
                ("refund", "pending") => format!("the refund of {} is on its way", amount("amount")),
                ("payment", "succeeded") => format!("captured {}", amount("amount_captured")),
                ("payment", "canceled") => "voided: nothing is held any more".to_owned(),
                (object, status) => format!("done: the {object} is {}", status.replace('_', " ")),
            })
        }
        ExecuteResult::Pending { in_doubt: true, .. } => {
            ActionOutcome::begun("begun; the provider’s answer is not known yet; it is asked until it says")
        }
        ExecuteResult::Pending { .. }
        | ExecuteResult::InProgress { .. }
        | ExecuteResult::Interrupted { .. } => ActionOutcome::begun("begun; it goes on by itself"),
        ExecuteResult::Mismatch { .. } => ActionOutcome::refused("this button was used with other entries"),
        ExecuteResult::Refused(refusal) => ActionOutcome::refused(why(refusal)),
        ExecuteResult::Expired => ActionOutcome::refused("this button was used long ago"),
        ExecuteResult::NotOwner => ActionOutcome::refused("the payment belongs to another account"),
        ExecuteResult::NotStarted => ActionOutcome::refused("nothing was begun: load the page again"),
        ExecuteResult::RateLimited => ActionOutcome::refused("too many requests: try again in a minute"),
    }
}

fn why(refusal: Refusal) -> String {
    match refusal {
        Refusal::NoPayment => "there is no payment".to_owned(),
        Refusal::State { detail, .. }
        | Refusal::TooMuch { detail, .. }
        | Refusal::LimitReached { detail } => detail,
        Refusal::Amount { message } => format!("the amount {message}"),
        Refusal::LinkReplaced | Refusal::LinkEnded => "the link is not the order’s newest".to_owned(),
        Refusal::TooSoon { .. } => "the order was tried too often in a row".to_owned(),
        Refusal::KeysUnusable => {
            "the account’s own key at the provider cannot be opened: set it again on the account’s page"
                .to_owned()
        }
        // The desk makes no customers.
        Refusal::Revision { .. } | Refusal::Field { .. } | Refusal::Overtaken => {
            "this cannot be done at the desk".to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_cannot_be_asked_was_not_asked() {
        assert_eq!(asked("stripe"), "the provider is being asked");
        assert!(asked("adyen").starts_with("Adyen cannot be asked"));
        assert!(can_be_asked("bank"), "no provider of payments");
    }
}
