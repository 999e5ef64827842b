//! The registry of API accounts, as the document tells of it.

use serde_json::json;

use super::answers::*;
use super::operation::Operation;
use super::schema::{
    Schema, boolean, constant, integer_of, list, object, one_of_words, reference, text, uri,
};
use messages::account::ID_MAX;

/// What any of these may be refused for.
const REFUSED: [Refusal; 3] = [UNAUTHORIZED, RATE_LIMITED, UNREADABLE];
/// And one that changes something.
const CHANGE: [Refusal; 5] =
    [REQUEST_TIMEOUT, CONTENT_TOO_LARGE, BAD_REQUEST, INVALID_PARAMETERS, UNSUPPORTED_MEDIA_TYPE];

pub(in crate::edge) fn list_accounts() -> Operation {
    Operation::new(
        "Service",
        "listAccounts",
        "List the accounts",
        "The API accounts of the registry, by their ids. Those of the secret `API_ACCOUNTS` are not in it.",
    )
    .query("limit", "How many at most.", integer_of(1, 200).with("default", 50))
    .query("after", "The last account of the page before.", text())
    .shows(
        "The accounts.",
        object()
            .has("object", constant("list"))
            .has("url", text())
            .has("has_more", boolean())
            .has("data", list(reference("Account"))),
    )
    .refuses(&REFUSED)
    .refuses(&[INVALID_PARAMETERS])
}

pub(in crate::edge) fn show_account() -> Operation {
    Operation::new(
        "Service",
        "showAccount",
        "Show an account",
        "What it is set to, and its tokens without the tokens.",
    )
    .shows("The account.", reference("Account"))
    .refuses(&REFUSED)
    .refuses(&[NOT_FOUND])
}

pub(in crate::edge) fn put_account() -> Operation {
    Operation::new(
        "Service",
        "putAccount",
        "Make or change an account",
        "It is to be just this, whatever it was. Sent again it changes nothing. Each part of the world goes by it within a \
         minute.",
    )
    .body(
        true,
        [(
            "application/json",
            object()
                .has("settings", reference("AccountSettings"))
                .may_have("state", state().with("default", "active"))
                .closed(),
        )],
    )
    .shows("The account.", reference("Account"))
    .refuses(&REFUSED)
    .refuses(&CHANGE)
}

pub(in crate::edge) fn put_account_token() -> Operation {
    Operation::new(
        "Service",
        "putAccountToken",
        "Make a token good",
        "Make the token yourself, such as with `openssl rand -base64 32`, and send its SHA-256 alone: it is stored nowhere. \
         Several are good at the same time, so one can replace another without a gap: put the new one, give the old one an \
         `ends_at`. What has ended stays so. Sent again it changes nothing.",
    )
    .body(
        true,
        [(
            "application/json",
            object()
                .has("name", text().about("Where it is used.").at_most(60))
                .may_have("ends_at", reference("Time").about("When it ends by itself."))
                .closed(),
        )],
    )
    .shows("The token, without the token.", reference("AccountToken"))
    .refuses(&REFUSED)
    .refuses(&CHANGE)
    .refuses(&[NOT_FOUND])
}

pub(in crate::edge) fn revoke_account_token() -> Operation {
    Operation::new(
        "Service",
        "revokeAccountToken",
        "Revoke a token",
        "It ends now, and is refused everywhere within a minute. Asking again changes nothing.",
    )
    .answers(204, "It has ended.", &[], [])
    .refuses(&REFUSED)
    .refuses(&[NOT_FOUND])
}

fn state() -> Schema {
    one_of_words(["active", "closed"])
        .about("A closed account's tokens are refused, and its links cannot be paid.")
}

/// What stands in the answers and bodies above.
pub(super) fn schemas() -> Vec<(&'static str, Schema)> {
    let provider = |about: &str| text().about(about).at_most(255);
    vec![
        (
            "Account",
            object()
                .has("object", constant("account"))
                .has("id", text().about("As payments name their owner.").at_most(ID_MAX))
                .has("state", state())
                .has("settings", reference("AccountSettings"))
                .has("created_at", reference("Time"))
                .has("changed_at", reference("Time"))
                .may_have("tokens", list(reference("AccountToken")).about("The newest hundred, of one account.")),
        ),
        (
            "AccountSettings",
            object()
                .has("payment_method", provider("The provider's token of what pays, where a request names none.").example("pm_card_visa"))
                .may_have("customer", provider("The provider's customer."))
                .may_have("customer_prefix", provider("A request may name only customers whose ids begin like that."))
                .may_have("stripe_account", provider("The connected account at Stripe that takes the money.").with("pattern", "^acct_[A-Za-z0-9]+$"))
                .may_have("email", text().about("To whom receipts go, where a request does not say."))
                .may_have(
                    "adyen",
                    object()
                        .has("payment_method", provider("`storedPaymentMethodId`"))
                        .has("customer", provider("`shopperReference`"))
                        .closed(),
                )
                .may_have(
                    "shop",
                    object()
                        .has("name", text().about("Who sells, at the checkout and on receipts.").at_most(80))
                        .may_have("support", text().about("An address for email, or of a page."))
                        .may_have("logo", uri())
                        .closed(),
                )
                .may_have(
                    "currencies",
                    Schema::default()
                        .with("type", "object")
                        .about("The currencies in which it may charge, each with the most that one payment may be. Without it: all.")
                        .with("minProperties", 1)
                        .with("additionalProperties", object().may_have("amount_max", reference("Amount")).closed())
                        .example(json!({ "usd": { "amount_max": 500_000 }, "eur": {} })),
                )
                .closed(),
        ),
        (
            "AccountToken",
            object()
                .has("token_sha256", text().with("pattern", "^[0-9a-f]{64}$"))
                .has("name", text())
                .has("created_at", reference("Time"))
                .has("ends_at", reference("Time").or_null().about("From when on it is refused.")),
        ),
    ]
}
