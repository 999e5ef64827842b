//! The keys that an account has of its own at Stripe and at Adyen: what is shown of them, and what an operator enters. That goes on to the payments Worker, which
//! alone seals and opens it; here it is neither kept nor shown again.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use worker::{Env, Result};

use super::store;
use super::view::{Entry, KeyLine};
use crate::action_outcome::{ActionOutcome, Status};
use crate::app::App;
use crate::button::Button;
use crate::confirm::Question;
use crate::context::Desk;
use crate::detail_tables::fact;
use crate::format;
use crate::operations;
use crate::operator::is_form_key;
use crate::operator_log::{self, Action};
use crate::route::{CredentialAction, OperatorAction, Target};
use crate::status::Entity;
use crate::view_models::Cell;
use messages::account::Account;
use messages::credentials::{CredentialChange, CredentialKind, CredentialOutcome, hint};
use messages::operations::CREDENTIAL_PATH;
use once::fingerprint::FieldError;
use payments::providers::Provider;
use payments::timestamp;
use runtime::db::Db;
use runtime::serve::unreadable;
use web::http::Answer;
use web::problem::{Kind, Problem, invalid_parameters};
use web::route::{Decoded, Parameter};

/// One of them, as far as it is ever shown.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct ShownRow {
    kind: String,
    hint: String,
    mode: Option<String>,
    stripe_account: Option<String>,
    merchant_account: Option<String>,
    changed_at_ms: u64,
}

impl ShownRow {
    pub(super) fn is(&self, kind: CredentialKind) -> bool {
        self.kind == kind.as_str()
    }

    /// Live, test, or nothing.
    fn mode(&self) -> Cell {
        self.mode.as_deref().map_or_else(|| Cell::text(""), |mode| Entity::Credential.chip(mode))
    }

    /// The account at its provider that it is of; empty if that is not known.
    fn account_there(&self) -> String {
        self.stripe_account.clone().or_else(|| self.merchant_account.clone()).unwrap_or_default()
    }

    /// The merchant account at Adyen that it is of.
    pub(super) fn merchant_account(&self) -> Option<&str> {
        self.merchant_account.as_deref()
    }
}

/// Those of an account.
pub(super) async fn of(env: &Env, account: &str) -> Result<Vec<ShownRow>> {
    let sql = "SELECT kind, hint, mode, stripe_account, merchant_account, changed_at_ms FROM account_credentials WHERE account = ?1";
    Db::of(env)?.rows(sql, vec![account.into()]).await
}

/// Whether an account's key at Adyen was found good at the endpoint that is wanted. One that is entered is; to another prefix new payments would go unasked,
/// and for good.
///
/// # Errors
/// What to do.
pub(super) fn keeps_endpoint(
    keys: &[ShownRow],
    before: &Account,
    wanted: &Account,
) -> std::result::Result<(), String> {
    let prefix = |account: &Account| account.adyen_account.as_ref().and_then(|at| at.live_prefix.clone());
    let (Some(before), Some(wanted)) = (prefix(before), prefix(wanted)) else { return Ok(()) };
    if before == wanted || !keys.iter().any(|key| key.is(CredentialKind::AdyenApiKey)) {
        return Ok(());
    }
    Err(format!(
        "The API key at Adyen was found good at the live prefix {before}: remove the key, change the prefix, and enter the key again."
    ))
}

/// One for a program.
pub(super) fn json(row: &ShownRow) -> Value {
    json!({
        "kind": row.kind,
        "hint": row.hint,
        "mode": row.mode,
        "stripe_account": row.stripe_account,
        "merchant_account": row.merchant_account,
        "changed_at": timestamp(row.changed_at_ms),
    })
}

/// How a person calls it.
const fn label(kind: CredentialKind) -> &'static str {
    match kind {
        CredentialKind::StripeSecretKey => "Secret key",
        CredentialKind::StripePublishableKey => "Publishable key",
        CredentialKind::StripeWebhookSecret => "Webhook secret",
        CredentialKind::StripeWebhookSecretBefore => "Webhook secret before",
        CredentialKind::AdyenApiKey => "API key",
        CredentialKind::AdyenHmacKey => "HMAC key",
        CredentialKind::AdyenHmacKeyBefore => "HMAC key before",
        CredentialKind::AdyenWebhookAuth => "Webhook user",
        CredentialKind::AdyenReportKey => "Report key",
    }
}

/// The entries of a provider's keys.
pub(super) const fn entries(provider: Provider) -> &'static [Entry] {
    match provider {
        Provider::Stripe => &OF_STRIPE,
        Provider::Adyen => &OF_ADYEN,
    }
}

const OF_ADYEN: [Entry; 4] = [
    (
        "adyen_api_key",
        "API key",
        "AQE… Of a user who has the roles of the Checkout API for the merchant account.",
    ),
    (
        "adyen_hmac_key",
        "HMAC key",
        "64 hexadecimal digits. The one that it replaces is believed, too, until it is removed.",
    ),
    (
        "adyen_webhook_auth",
        "Webhook user and password",
        "user:password, as they are set with the webhook at Adyen: without them nothing that it tells is read.",
    ),
    (
        "adyen_report_key",
        "Report key",
        "AQE… Of a user who may download this merchant account’s reports, and nothing else. Without it a person sends them.",
    ),
];

const OF_STRIPE: [Entry; 3] = [
    ("stripe_secret_key", "Secret key", "sk_… or, better, a restricted key rk_…"),
    ("stripe_publishable_key", "Publishable key", "pk_… For the checkout."),
    (
        "stripe_webhook_secret",
        "Webhook secret",
        "whsec_… The one that it replaces is believed, too, until it is removed.",
    ),
];

/// Where the form is sent.
pub(super) fn path(id: &str) -> String {
    format!("{}/credentials", Target::Account(id.to_owned()).path())
}

/// The keys, in the list.
pub(super) fn lines(
    desk: &Desk<'_>,
    id: &str,
    provider: Provider,
    rows: &[ShownRow],
) -> std::result::Result<Vec<KeyLine>, Problem> {
    let now_ms = desk.request.now_ms;
    let mut lines = Vec::new();
    for kind in CredentialKind::ALL.into_iter().filter(|kind| kind.provider() == provider) {
        let Some(row) = rows.iter().find(|row| row.is(kind)) else { continue };
        let subject = Target::Credential(id.to_owned(), kind);
        lines.push(KeyLine {
            cells: vec![
                Cell::text(label(kind)).with(row.account_there()),
                Cell { class: "id", ..Cell::text(row.hint.clone()) },
                row.mode(),
                Cell::moment(row.changed_at_ms).with(format::from_now(row.changed_at_ms, now_ms)),
            ],
            buttons: vec![Button::dangerous(OperatorAction::Remove, &subject, "Remove")],
        });
    }
    Ok(lines)
}

/// What does not go any more without a key.
const fn lost(kind: CredentialKind) -> &'static str {
    match kind {
        CredentialKind::StripeSecretKey | CredentialKind::AdyenApiKey => {
            "While the account is charged with it, all its payments are refused until it is set again. What was paid with it can be neither \
             captured nor refunded here until then."
        }
        CredentialKind::StripePublishableKey => {
            "The checkout takes no cards for the account until it is set again."
        }
        CredentialKind::StripeWebhookSecret => {
            "With it goes the one before: Stripe’s events are refused then."
        }
        CredentialKind::StripeWebhookSecretBefore | CredentialKind::AdyenHmacKeyBefore => {
            "Events that are signed with it are refused then."
        }
        CredentialKind::AdyenHmacKey => "With it goes the one before: what Adyen tells is refused then.",
        CredentialKind::AdyenWebhookAuth => "What Adyen tells is refused until it is set again.",
        CredentialKind::AdyenReportKey => "Its settlement reports are fetched no more: a person sends them.",
    }
}

/// `GET /admin/accounts/{id}/credentials/{kind}/{action}`
pub(crate) async fn confirm(
    desk: &Desk<'_>,
    id: &Parameter<'_, Decoded>,
    kind: &str,
    action: &Parameter<'_, CredentialAction>,
) -> std::result::Result<Answer, Problem> {
    let not_found = || Problem::new(Kind::NotFound);
    let (CredentialAction(act), Decoded(id)) = (action.read()?, id.read()?);
    let kind = CredentialKind::parse(kind).ok_or_else(not_found)?;
    let set = of(&desk.app.env, &id).await.map_err(unreadable)?;
    let subject = Target::Credential(id.clone(), kind);
    let Some(row) = set.iter().find(|row| row.is(kind)) else {
        must_exist(desk.app, &id).await?;
        return Ok(Answer::see_other(&subject.path(), "found"));
    };
    let set_ago = format::from_now(row.changed_at_ms, desk.request.now_ms);
    let question = Question {
        act,
        subject: &subject,
        title: format!("Remove the key “{}” of {id}?", label(kind)),
        sentence: lost(kind).to_owned(),
        risk: "It is stored nowhere else: to set it again it must be entered again.".to_owned(),
        facts: vec![
            fact("Account", Cell { class: "id", ..Cell::text(id.clone()) }),
            fact("Key", Cell::text(label(kind)).with(row.account_there())),
            fact("Begins and ends", Cell { class: "id", ..Cell::text(row.hint.clone()) }),
            fact("Mode", row.mode()),
            fact("Set", Cell::moment(row.changed_at_ms).with(set_ago)),
        ],
        label: "Remove the key".to_owned(),
        entries: Vec::new(),
        here: super::PATH,
    };
    question.page(desk).await
}

/// What an operator has entered: read, and not kept.
pub(super) struct Entered(Vec<(CredentialKind, String)>);

impl Entered {
    /// Reads the form. An error says what to enter, and repeats nothing of it.
    pub(super) fn read(
        provider: Provider,
        value: impl Fn(&str) -> String,
    ) -> std::result::Result<Self, String> {
        let mut entered = Vec::new();
        for (name, label, _) in entries(provider) {
            let text = value(name).trim().to_owned();
            let Some(kind) = CredentialKind::parse(name).filter(|_| !text.is_empty()) else { continue };
            kind.check(&text)
                .map_err(|what| format!("The {} {what}. Nothing was set.", in_a_sentence(label)))?;
            entered.push((kind, text));
        }
        if entered.is_empty() {
            return Err("Enter at least one of them. Nothing was set.".to_owned());
        }
        Ok(Self(entered))
    }

    /// As the audit log has it.
    fn what(&self) -> String {
        let one =
            |(kind, value): &(CredentialKind, String)| format!("{} {}", kind.as_str(), hint(*kind, value));
        format!("set keys: {}", self.0.iter().map(one).collect::<Vec<_>>().join(", "))
    }
}

/// A label within a sentence: `API` stays as it is.
fn in_a_sentence(label: &str) -> String {
    let is_word = label.chars().nth(1).is_some_and(char::is_lowercase);
    if is_word { label.to_lowercase() } else { label.to_owned() }
}

/// `POST /admin/accounts/{id}/credentials`, once its entries are read.
pub(super) async fn set(
    desk: &Desk<'_>,
    id: &str,
    form: &str,
    entered: Entered,
) -> std::result::Result<Answer, Problem> {
    let request = desk.request;
    if !is_form_key(desk.app, &desk.operator, &request.path, form, request.now_ms) {
        return Err(operator_log::stranger());
    }
    let env = &desk.app.env;
    let subject = Target::Account(id.to_owned());
    let (name, what) = (subject.name(), entered.what());
    let action = Action { operator: &desk.operator, what: &what, subject: &name };
    let begun = operator_log::begin_once(env, form, &action, request.now_ms).await?;
    if begun.is_new || begun.is_unfinished {
        let mut ended = Vec::new();
        for (kind, value) in entered.0 {
            let outcome = ask(env, id, kind, Some(value)).await.map_or_else(ActionOutcome::failed, ended_as);
            let is_done = outcome.status == Status::Done;
            ended.push((kind, outcome));
            if !is_done {
                break;
            }
        }
        operator_log::end(env, begun.id, &action, &all_of(&ended)).await.map_err(unreadable)?;
    }
    Ok(Answer::see_other(&format!("{}?done={}", subject.path(), begun.id), "acted"))
}

/// How several ended, one after the other up to the first that was not set: as that one did.
fn all_of(ended: &[(CredentialKind, ActionOutcome)]) -> ActionOutcome {
    let said = ended.iter().map(|(kind, outcome)| format!("{} {}", kind.as_str(), outcome.text));
    let text = said.collect::<Vec<_>>().join("; ");
    ActionOutcome { status: ended.last().map_or(Status::Done, |(_, outcome)| outcome.status), text }
}

fn ended_as(outcome: CredentialOutcome) -> ActionOutcome {
    match outcome {
        CredentialOutcome::Done(outcome) => ActionOutcome::done(outcome),
        CredentialOutcome::Refused(why) => ActionOutcome::refused(why),
        CredentialOutcome::Failed(why) => ActionOutcome::failed(why),
    }
}

/// Removes one, by its button.
pub(crate) async fn remove(desk: &Desk<'_>, id: &str, kind: CredentialKind) -> Result<ActionOutcome> {
    ask(&desk.app.env, id, kind, None).await.map(ended_as)
}

/// For a program: how it ended, and the sentence for the log.
pub(super) async fn change(
    app: &App,
    id: &str,
    kind: CredentialKind,
    value: Option<String>,
) -> std::result::Result<String, Problem> {
    match ask(&app.env, id, kind, value).await.map_err(unreadable)? {
        CredentialOutcome::Done(outcome) => Ok(outcome),
        CredentialOutcome::Refused(why) => {
            Err(invalid_parameters(vec![FieldError { field: "value".to_owned(), message: why }]))
        }
        CredentialOutcome::Failed(why) => Err(Problem::because(Kind::Unreadable, why).retry_after_s(5)),
    }
}

async fn ask(env: &Env, id: &str, kind: CredentialKind, value: Option<String>) -> Result<CredentialOutcome> {
    let wanted = CredentialChange { account: id.to_owned(), kind, value };
    operations::ask(env, CREDENTIAL_PATH, &wanted).await
}

/// What a program sends. Its reader quotes nothing of it: it is a secret.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    pub(super) value: String,
}

/// Whether an account is in the registry.
pub(super) async fn must_exist(app: &App, id: &str) -> std::result::Result<(), Problem> {
    let found = store::find(&app.env, id).await.map_err(unreadable)?;
    found.map(drop).ok_or_else(|| Problem::new(Kind::NotFound))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "sk_live_0123456789abcdefghijklmn";
    const API_KEY: &str = "AQE_0123_456789abcdefghijklmn";

    fn read(provider: Provider, entries: &[(&str, &str)]) -> std::result::Result<Entered, String> {
        Entered::read(provider, |name| {
            let found = entries.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned()).unwrap_or_default()
        })
    }

    #[test]
    fn the_log_has_no_more_of_a_key_than_its_ends() {
        let entries = [("stripe_secret_key", SECRET), ("stripe_publishable_key", "  ")];
        let entered = read(Provider::Stripe, &entries).unwrap();
        assert_eq!(entered.what(), "set keys: stripe_secret_key sk_live_…klmn");
        let of_adyen = [("adyen_api_key", API_KEY), ("adyen_webhook_auth", "hook:0123456789"), entries[0]];
        let entered = read(Provider::Adyen, &of_adyen).unwrap();
        assert_eq!(entered.what(), "set keys: adyen_api_key …klmn, adyen_webhook_auth hook:…");
    }

    #[test]
    fn keys_of_which_one_is_refused_are_not_told_of_as_set() {
        let set = (CredentialKind::StripeSecretKey, ActionOutcome::done("is set"));
        let refused = (CredentialKind::StripeWebhookSecret, ActionOutcome::refused("it is another’s"));
        assert_eq!(all_of(std::slice::from_ref(&set)).status, Status::Done, "control");
        let both = all_of(&[set, refused]);
        assert_eq!((both.status, both.status.tone()), (Status::Refused, "warning"));
        assert_eq!(both.text, "stripe_secret_key is set; stripe_webhook_secret refused: it is another’s");
    }

    #[test]
    fn what_is_wrong_is_said_without_it() {
        let error = read(Provider::Stripe, &[("stripe_publishable_key", SECRET)]).err().unwrap();
        assert!(error.contains("publishable key is a secret key") && !error.contains("0123"), "{error}");
        let error = read(Provider::Adyen, &[("adyen_api_key", SECRET)]).err().unwrap();
        assert!(error.contains("The API key is a key of Stripe") && !error.contains("0123"), "{error}");
        for provider in Provider::ALL {
            assert!(read(provider, &[]).err().unwrap().contains("at least one"));
        }
    }
}
