//! What an operator wants of an account's own keys, by way of the desk: entered, replaced, removed; and sealed anew under another key of this
//! Worker. What was entered is checked with its provider, sealed, and never given back.

use std::rc::Rc;

use serde::{Deserialize, Serialize};
use worker::Env;

use crate::config::Config;
use crate::own_keys::rows::{self, NewRow, Of, Row};
use crate::own_keys::{OwnKeys, forget};
use crate::transport::Transport;
use messages::account::{Account, AccountRow, AdyenAccount};
use messages::credentials::{CredentialChange, CredentialKind, CredentialOutcome, Mode, hint};
use payments::providers::{HttpAnswer, Provider};
use runtime::log::log;

/// How many are looked at in one run to be sealed anew: the next one goes on behind them.
const RESEALED_MAX: usize = 100;

/// Why nothing was changed.
enum Stop {
    /// For good: a person has to do something.
    Refused(String),
    /// For the moment.
    Failed(String),
}

impl From<worker::Error> for Stop {
    fn from(error: worker::Error) -> Self {
        log("error", &[("event", "own_keys_unchanged".into()), ("error", error.to_string().into())]);
        Self::Failed(
            "The registry could not be read or written. Nothing was changed: try it again.".to_owned(),
        )
    }
}

/// What was to be written may be written.
fn unknown(error: worker::Error) -> Stop {
    log("error", &[("event", "own_keys_unknown".into()), ("error", error.to_string().into())]);
    Stop::Failed(
        "The registry did not say whether it was written. Look at the list, then try it again.".to_owned(),
    )
}

fn refused<T>(why: impl Into<String>) -> Result<T, Stop> {
    Err(Stop::Refused(why.into()))
}

/// Does what is wanted, or says why not.
pub(crate) async fn change(env: &Env, config: &Rc<Config>, wanted: &CredentialChange) -> CredentialOutcome {
    let done = match &wanted.value {
        Some(value) => set(env, config, wanted, value).await,
        None => remove(env, wanted).await,
    };
    forget(&wanted.account);
    match done {
        Ok(outcome) => CredentialOutcome::Done(outcome),
        Err(Stop::Refused(why)) => CredentialOutcome::Refused(why),
        Err(Stop::Failed(why)) => CredentialOutcome::Failed(why),
    }
}

async fn remove(env: &Env, wanted: &CredentialChange) -> Result<String, Stop> {
    // One that was replaced is nothing without the one that replaced it.
    let (kind, now_ms) = (wanted.kind, runtime::now_ms());
    let number = rows::remove(env, &wanted.account, kind, kind.before(), now_ms).await.map_err(unknown)?;
    let leaked = match kind.provider() {
        Provider::Stripe => "roll it at Stripe",
        Provider::Adyen => "make a new one at Adyen, which ends it",
    };
    Ok(match number {
        0 => "there was none".to_owned(),
        _ => format!(
            "removed: it is used nowhere any more within a minute, or ten while D1 cannot be read. If it leaked, {leaked}."
        ),
    })
}

async fn set(env: &Env, config: &Rc<Config>, wanted: &CredentialChange, value: &str) -> Result<String, Stop> {
    let (account, kind) = (wanted.account.as_str(), wanted.kind);
    if config.credentials_keys.is_empty() {
        return refused(
            "CREDENTIALS_KEY is not set at the payments Worker, so nothing can be sealed: `openssl rand -base64 32 | npx wrangler secret \
             put CREDENTIALS_KEY`.",
        );
    }
    if config.accounts.contains_key(account) {
        return refused(
            "The account is set by the secret API_ACCOUNTS: only an account of the registry has keys of its own.",
        );
    }
    let Some(registered) = rows::registered(env, account).await? else {
        return refused("There is no such account in the registry.");
    };
    if !kind.is_entered() {
        return refused("Only the newest secret can be entered: the one before it is kept by itself.");
    }
    let mode = kind.check(value).or_else(|what| refused(format!("It {what}.")))?;
    // All of them are of one merchant account: what one for tests has signed says nothing of live payments.
    let merchant = match kind.provider() {
        Provider::Adyen => Some(merchant_of(&registered)?),
        Provider::Stripe => None,
    };
    let mode = merchant.as_ref().map_or(mode, |merchant| Some(mode_of(merchant)));
    if config.demo && mode == Some(Mode::Live) {
        return refused("This is the demo: no live key belongs here.");
    }
    let known = rows::of(env, account).await?;
    of_one_mode(&known, kind, mode)?;
    let own = OwnKeys::read(config, account, known).await;
    let is_same = own.open(kind).await.is_ok_and(|now| now == value);
    // The same key may say more than it did: once it may read its account.
    let stripe_account = match kind {
        CredentialKind::StripeSecretKey if !is_same || own.stripe_account().is_none() => {
            checked(env, config, &own, value, mode).await?
        }
        _ => None,
    };
    let merchant_account = match merchant.as_ref().filter(|_| kind == CredentialKind::AdyenApiKey) {
        // What it is good for may have changed at Adyen, and the address to which it goes here.
        Some(merchant) => Some(checked_at_adyen(env, config, &own, value, merchant).await?),
        None => None,
    };
    let is_known = stripe_account.is_some() || own.stripe_account().is_some();
    let not_compared = if kind == CredentialKind::StripeSecretKey && !is_known {
        "; it may not read its account, so its payments are not compared with Stripe until it may: allow it, then enter it again"
    } else {
        ""
    };
    let unchanged = || format!("nothing was different: {}{not_compared}", hint(kind, value));
    if is_same && stripe_account.is_none() {
        return Ok(unchanged());
    }
    let mut new = Vec::new();
    if let Some(kind_before) = kind.before()
        && let Ok(before) = own.open(kind).await
    {
        new.push(row(config, account, kind_before, &before, mode, Of::default()).await?);
    }
    let of_merchant = merchant_account.clone();
    let known = stripe_account.as_ref().or(merchant_account.as_ref());
    let of = known.map(|id| format!(", of {id}")).unwrap_or_default();
    new.push(row(config, account, kind, value, mode, Of { stripe_account, merchant_account }).await?);
    let also = if new.len() > 1 { "; the one before it is believed, too" } else { "" };
    let written = rows::put(env, account, &own.rows, &new, runtime::now_ms()).await.map_err(unknown)?;
    if written == 0 {
        // Sent twice at once, it is as it was to be.
        let now = OwnKeys::read(config, account, rows::of(env, account).await?).await;
        if now.open(kind).await.is_ok_and(|now| now == value) {
            return Ok(unchanged());
        }
        if let Some(merchant) = &of_merchant {
            check_unclaimed(env, account, merchant).await?;
        }
        return refused(
            "The keys were changed by another at the same time. Nothing was changed: look at the list.",
        );
    }
    Ok(format!("set: {}{of}{also}{not_compared}", hint(kind, value)))
}

async fn row(
    config: &Config,
    account: &str,
    kind: CredentialKind,
    value: &str,
    mode: Option<Mode>,
    of: Of,
) -> Result<NewRow, Stop> {
    let sealed = config.credentials_keys.seal(account, kind, value).await?;
    Ok(NewRow { kind, sealed, hint: hint(kind, value), mode, of })
}

/// What a browser makes with a test key is not in the live books; and payments of the one mode cannot be refunded with a key of the other.
fn of_one_mode(known: &[Row], kind: CredentialKind, mode: Option<Mode>) -> Result<(), Stop> {
    let Some(mode) = mode else { return Ok(()) };
    let mut there = known.iter().filter(|row| row.is_at(kind.provider()));
    let other = there.find(|row| row.mode.is_some_and(|known| known != mode));
    let Some(other) = other else { return Ok(()) };
    let now = match mode {
        Mode::Live => "test",
        Mode::Test => "live",
    };
    refused(if other.is(kind) {
        format!(
            "It is a {} key, and the one it would replace is a {now} key: what was paid with that could not be refunded. For other payments \
             make another account; or remove the {now} keys first.",
            mode.as_str()
        )
    } else {
        format!(
            "It is a {} key, and the account’s other key is a {now} key: both must be of one mode.",
            mode.as_str()
        )
    })
}

/// Asks Stripe whose key it is. A restricted key may not say it: then it replaces none of which that is known, else it would take all new payments to
/// wherever it is of. Where nothing is known, each payment that was made with another key proves it by itself.
async fn checked(
    env: &Env,
    config: &Rc<Config>,
    own: &OwnKeys,
    secret: &str,
    mode: Option<Mode>,
) -> Result<Option<String>, Stop> {
    let transport = Transport::new(env, config);
    let id = match transport.whose_key(secret).await {
        Ok(answer) if answer.status == 200 => named(&answer),
        Ok(answer) if answer.status == 401 => {
            return refused("Stripe refuses it (401): it was rolled or deleted there, or not copied whole.");
        }
        Ok(answer) if answer.status == 403 => {
            let Some(before) = own.stripe_account() else { return Ok(None) };
            return refused(format!(
                "It may not say of which account it is, and the one it would replace is of {before}: allow it to read the account, or remove \
                 that key first."
            ));
        }
        Ok(answer) => return Err(unsaid(&format!("Stripe answered {}", answer.status))),
        Err(reason) => return Err(unsaid(&format!("Stripe did not answer: {reason}"))),
    };
    let Some(id) = id else { return Err(unsaid("Stripe’s answer was not understood")) };
    if let Some(before) = own.stripe_account().filter(|before| *before != id) {
        return refused(format!(
            "It is a key of {id}, and the one it would replace is of {before}: what was paid there could not be refunded. For payments in {id} \
             make another account; or remove the key of {before} first."
        ));
    }
    if let Some(other) = rows::owner_of(env, &id, mode).await?.filter(|other| *other != own.account) {
        return refused(format!(
            "It is a key of {id}, and so is that of the account {other}: one of them has it."
        ));
    }
    let deployments = match transport.whose_key(&config.stripe_key).await {
        Ok(answer) if answer.status == 200 => named(&answer),
        // A restricted key that may not say it.
        Ok(answer) if answer.status == 403 => None,
        Ok(answer) => return Err(unsaid(&format!("Stripe answered {} to STRIPE_SECRET_KEY", answer.status))),
        Err(reason) => return Err(unsaid(&format!("Stripe did not answer: {reason}"))),
    };
    if deployments.as_ref() == Some(&id)
        && Some(config.credentials.stripe.live) == mode.map(|mode| mode == Mode::Live)
    {
        return refused(format!(
            "It is a key of {id}, as STRIPE_SECRET_KEY is: without keys of its own the account is charged there anyway."
        ));
    }
    Ok(Some(id))
}

/// The merchant account at Adyen of an account of the registry.
fn merchant_of(registered: &AccountRow) -> Result<AdyenAccount, Stop> {
    let settings = registered.settings.as_deref().unwrap_or_default();
    let Ok(account) = json_text::from_str::<Account>(settings) else {
        return refused("The account’s settings are of a newer release, which alone can read them.");
    };
    account.adyen_account.map_or_else(
        || {
            refused(
                "Which merchant account it is for is not known: edit the account and name its merchant account at Adyen, then enter the key.",
            )
        },
        Ok,
    )
}

const fn mode_of(merchant: &AdyenAccount) -> Mode {
    if merchant.live_prefix.is_some() { Mode::Live } else { Mode::Test }
}

/// Asks Adyen whether a key is good for the merchant account, at the endpoint of that. Gives its name.
async fn checked_at_adyen(
    env: &Env,
    config: &Rc<Config>,
    own: &OwnKeys,
    secret: &str,
    merchant: &AdyenAccount,
) -> Result<String, Stop> {
    let name = &merchant.merchant_account;
    if let Some((before, _)) = own.merchant_account().filter(|(before, _)| before != name) {
        return refused(format!(
            "The account’s merchant account is {name} now, and the key it would replace is of {before}: what was paid there could not be \
             refunded. For payments in {name} make another account; or remove the key of {before} first."
        ));
    }
    if config.adyen.as_ref().is_some_and(|adyen| adyen.merchant_account == *name) {
        return refused(format!(
            "{name} is the merchant account of ADYEN_MERCHANT_ACCOUNT: without keys of its own the account is charged there anyway."
        ));
    }
    check_unclaimed(env, &own.account, name).await?;
    match Transport::new(env, config).is_key_of(&merchant.named(), secret).await {
        Ok(answer) if answer.status == 200 => Ok(name.clone()),
        Ok(answer) if answer.status == 401 => refused(
            "Adyen refuses it (401): it was replaced or disabled there, is of the other mode, or was not copied whole.",
        ),
        Ok(answer) if matches!(answer.status, 403 | 422) => refused(format!(
            "Adyen does not let it into the merchant account {name} ({}): give its user the roles of the Checkout API there, or correct the \
             name in the account’s settings.",
            answer.status
        )),
        Ok(answer) => Err(unsaid(&format!("Adyen answered {}", answer.status))),
        Err(reason) => Err(unsaid(&format!("Adyen did not answer: {reason}"))),
    }
}

/// A merchant account is one account's alone, and so is its name, for tests and live: reports tell it by its name.
async fn check_unclaimed(env: &Env, account: &str, merchant: &str) -> Result<(), Stop> {
    match rows::merchant_owner(env, merchant, account).await? {
        None => Ok(()),
        Some(other) => refused(format!(
            "It would be a key of {merchant}, and so is that of the account {other}: one of them has it, for tests and live."
        )),
    }
}

fn unsaid(what: &str) -> Stop {
    Stop::Failed(format!("{what}, so nobody knows whose key it is. Nothing was changed: try it again."))
}

fn named(answer: &HttpAnswer) -> Option<String> {
    #[derive(Deserialize)]
    struct Named {
        id: String,
    }
    let named: Named = json_text::from_str(&answer.body).ok()?;
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    (named.id.starts_with("acct_") && named.id.bytes().all(is_plain)).then_some(named.id)
}

/// How many were sealed anew, and how many of those that were looked at cannot be opened.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Resealed {
    resealed: usize,
    unopened: usize,
    /// How many are sealed under the key that is replaced, after all that. `None` while none is replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    left: Option<usize>,
}

/// Seals under the first key what is sealed under the other one, while there are two: a slice of it in each run, and after the last one
/// from the start. What cannot be opened is passed over, and keeps nothing back for good that can.
pub(crate) async fn reseal(env: &Env, config: &Config) -> worker::Result<Resealed> {
    let (keys, mut done) = (&config.credentials_keys, Resealed::default());
    let Some((new, old)) = keys.replaced() else { return Ok(done) };
    done.unopened = rows::sealed_otherwise(env, new, old).await?;
    let before = rows::resealed_through(env).await?;
    let slice = rows::sealed_with(env, old, before.as_ref(), RESEALED_MAX).await?;
    for row in &slice {
        let value = match CredentialKind::parse(&row.kind) {
            Some(kind) => keys.open(&row.account, kind, &row.sealed).await.map(|value| (kind, value)),
            None => None,
        };
        match value {
            Some((kind, value)) => {
                let sealed = keys.seal(&row.account, kind, &value).await?;
                done.resealed += rows::resealed(env, row, sealed).await?;
            }
            None => done.unopened += 1,
        }
    }
    let last = slice.into_iter().nth(RESEALED_MAX - 1).map(|row| (row.account, row.kind));
    if last != before {
        rows::keep_resealed_through(env, last.as_ref(), runtime::now_ms()).await?;
    }
    // Counted at last: also what another isolate has sealed meanwhile that does not know the new key yet.
    done.left = Some(rows::number_sealed_with(env, old).await?);
    Ok(done)
}
