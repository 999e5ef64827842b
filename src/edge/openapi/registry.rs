//! The registry of API accounts, as the document tells of it.

use serde_json::{Value, json};

use super::answers::*;
use super::examples::AT;
use super::operation::Operation;
use super::schema::{
    Schema, boolean, constant, integer_of, list, object, one_of_words, reference, text, uri,
};
use messages::account::ID_MAX;
use messages::credentials::CredentialKind;

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
    .example(
        200,
        json!({
            "object": "list", "url": "/admin/api/accounts", "has_more": false, "data": [account_example()],
        }),
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
        "Its settings are to be just these, whatever they were. Without a `state` it stays as it is: an account that was closed \
         at the desk stays closed, and a new one is active. Sent again it changes nothing. Each part of the world goes by it within a \
         minute.",
    )
    .body(
        true,
        [(
            "application/json",
            object()
                .has("settings", reference("AccountSettingsRequest"))
                .may_have(
                    "state",
                    state().about(
                        "A closed account's tokens are refused, and its links cannot be paid. Left out, it stays as it is; a new \
                         one is `active`.",
                    ),
                )
                .closed(),
        )],
    )
    .sends(json!({ "settings": settings_example() }))
    .shows("The account.", reference("Account"))
    .example(200, account_example())
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
         `ends_at`. Without an `ends_at` the end stays as it is. What has ended stays so. Sent again it changes nothing.",
    )
    .body(
        true,
        [(
            "application/json",
            object()
                .has("name", text().about("Where it is used.").at_most(60))
                .may_have(
                    "ends_at",
                    reference("Time")
                        .or_null()
                        .about("When it ends by itself; `null`: never. Left out, that stays as it is."),
                )
                .closed(),
        )],
    )
    .sends(json!({ "name": TOKEN_NAME }))
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

pub(in crate::edge) fn put_account_credential() -> Operation {
    Operation::new(
        "Service",
        "putAccountCredential",
        "Set a key of an account's own at a provider",
        "It is sealed under `CREDENTIALS_KEY` and never shown again. Stripe is asked whose secret key it is, and Adyen whether an API key is good \
         for the account's `adyen_account`: one of another account there, or of the other mode, does not replace the one that is set. A \
         webhook's secret or HMAC key that is replaced is believed, too, until it is removed. Sent again it changes nothing. The keys count \
         once the account's `own_stripe_keys` or `own_adyen_keys` is true.",
    )
    .body(
        true,
        [(
            "application/json",
            object()
                .has("value", text().about("The key. It is stored sealed, and stands in no log.").at_most(255))
                .closed(),
        )],
    )
    .sends(json!({ "value": "sk_live_…" }))
    .shows("The key, without the key.", reference("AccountCredential"))
    .refuses(&REFUSED)
    .refuses(&CHANGE)
    .refuses(&[NOT_FOUND])
}

pub(in crate::edge) fn remove_account_credential() -> Operation {
    Operation::new(
        "Service",
        "removeAccountCredential",
        "Remove a key of an account's own",
        "It is used nowhere any more within a minute, or ten while D1 cannot be read. If it leaked, roll it at its provider. What was \
         paid with a secret key or an API key can be neither captured nor refunded until it is set again. \
         Asking again changes nothing.",
    )
    .answers(204, "There is none.", &[], [])
    .refuses(&REFUSED)
    .refuses(&[NOT_FOUND])
}

const TOKEN_NAME: &str = "Web server";

fn settings_example() -> Value {
    json!({ "payment_method": "pm_card_visa", "currencies": { "usd": { "amount_max": 500_000 }, "eur": {} } })
}

/// An account as a list has it.
fn account_example() -> Value {
    json!({
        "object": "account", "id": "shop-a", "state": "active", "settings": settings_example(), "created_at": AT,
        "changed_at": AT,
    })
}

/// An account as it is shown by itself.
fn whole_account_example() -> Value {
    let mut account = account_example();
    if let Value::Object(members) = &mut account {
        members.insert("credentials".to_owned(), json!([]));
        members.insert("tokens".to_owned(), json!([token_example()]));
        members.insert("has_more_tokens".to_owned(), false.into());
    }
    account
}

fn token_example() -> Value {
    json!({
        "token_sha256": "e7f716405ce1836a326e4ec3fc4c6058906150b41fbb0c961cdce4a6837190bd", "name": TOKEN_NAME,
        "created_at": AT, "ends_at": null,
    })
}

fn state() -> Schema {
    one_of_words(["active", "closed"])
        .about("A closed account's tokens are refused, and its links cannot be paid.")
}

/// What stands in the answers and bodies above.
pub(super) fn schemas() -> Vec<(&'static str, Schema)> {
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
                .may_have("tokens", list(reference("AccountToken")).about("Of one account: a hundred, those that are good first, the newest first."))
                .may_have("has_more_tokens", boolean().about("Of one account: there are more of them."))
                .may_have("credentials", list(reference("AccountCredential")).about("The keys of its own at its providers, of one account."))
                .example(whole_account_example()),
        ),
        ("AccountSettings", settings(|shown| shown)),
        ("AccountSettingsRequest", settings(Schema::closed)),
        (
            "AccountCredential",
            object()
                .has("kind", one_of_words(CredentialKind::ALL.map(CredentialKind::as_str)))
                .has("hint", text().about("How it begins, if that says what it is, and its last four characters; of a webhook's user and password the user."))
                .has("mode", one_of_words(["live", "test"]).or_null().about("Null for what is of a webhook, which does not say it."))
                .has("stripe_account", text().or_null().about("The account at Stripe whose secret key it is, if Stripe says it."))
                .has("merchant_account", text().or_null().about("The merchant account at Adyen for which the API key is good."))
                .has("changed_at", reference("Time"))
                .example(json!({
                    "kind": CredentialKind::StripeSecretKey.as_str(), "hint": "sk_live_…4242", "mode": "live",
                    "stripe_account": "acct_1ShopA", "merchant_account": null, "changed_at": AT,
                })),
        ),
        (
            "AccountToken",
            object()
                .has("token_sha256", text().with("pattern", "^[0-9a-f]{64}$"))
                .has("name", text())
                .has("created_at", reference("Time"))
                .has("ends_at", reference("Time").or_null().about("From when on it is refused."))
                .example(token_example()),
        ),
    ]
}

/// What an account is set to. `close` is for what is sent, where a member that is not known is refused.
fn settings(close: fn(Schema) -> Schema) -> Schema {
    let provider = |about: &str| text().about(about).at_most(255);
    close(
            object()
                .has("payment_method", provider("The provider's token of what pays, where a request names none.").example("pm_card_visa"))
                .may_have("customer", provider("The provider's customer."))
                .may_have("customer_prefix", provider("A request may name only customers whose ids begin like that."))
                .may_have("stripe_account", provider("The connected account at Stripe that takes the money.").with("pattern", "^acct_[A-Za-z0-9]+$"))
                .may_have("own_stripe_keys", boolean().about("It is charged with keys of its own at Stripe, and with no others: without one that can be used nothing is charged. Not with `stripe_account`."))
                .may_have("own_adyen_keys", boolean().about("It is charged at Adyen with a key of its own in its `adyen_account`, and in no other: without one that can be used nothing is charged there."))
                .may_have(
                    "adyen_account",
                    close(object()
                        .has("merchant_account", text().about("Its own merchant account at Adyen.").with("pattern", "^[A-Za-z0-9_.-]{1,80}$").example("ShopA_ECOM"))
                        .may_have("live_prefix", text().about("Of its live endpoint, as the Customer Area shows it; without it, it is one for tests.").with("pattern", "^[A-Za-z0-9]([A-Za-z0-9-]{0,47}[A-Za-z0-9])?$").example("1797a841fbb37ca7-AdyenDemo"))),
                )
                .may_have("email", text().about("To whom receipts go, where a request does not say."))
                .may_have(
                    "adyen",
                    close(object()
                        .has("payment_method", provider("`storedPaymentMethodId`"))
                        .has("customer", provider("`shopperReference`"))),
                )
                .may_have(
                    "shop",
                    close(object()
                        .has("name", text().about("Who sells, at the checkout and on receipts.").at_most(80))
                        .may_have("support", text().about("An address for email, or of a page."))
                        .may_have("logo", uri())),
                )
                .may_have(
                    "currencies",
                    Schema::default()
                        .with("type", "object")
                        .about("The currencies in which it may charge, each with the most that one payment may be. Without it: all.")
                        .with("minProperties", 1)
                        .with("additionalProperties", close(object().may_have("amount_max", reference("Amount"))))
                )
                .example(settings_example())
    )
}
