//! `POST /webhooks/{provider}`, and `POST /webhooks/{provider}/{account}` for an account with keys of its own: what a provider tells by itself. The signature is checked over the raw body before anything
//! in it is believed; the object that is meant takes the event in, once.
//!
//! Outcomes: 200 as soon as it is written down, also for what means nothing here; 400 for what is not signed by the
//! provider; 503 if it has to come again. What has no signature, or is too long, is refused before its body is read.
//!
//! What Stripe tells goes to its object at once: it only says that there is something to ask. What Adyen tells goes to the
//! inbox, because nobody can ask for it again, and to its object at once where the inbox takes nothing.

use std::rc::Rc;

use futures_util::FutureExt as _;
use serde_json::json;

use super::app::App;
use super::route::AccountId;
use crate::own_keys::OwnKeys;
use crate::webhooks::announcements::{Announcement, announce, leave_to_a_person};
use crate::webhooks::{Event, Ingested, adyen, stripe, work};
use messages::account::is_id;
use messages::inbox::Entry;
use once::id::ObjectId;
use payments::payment::own_keys::{Merchant, name_of};
use payments::providers::Provider;
use runtime::log::log;
use web::http::{Answer, Request};
use web::problem::{Kind, Problem};
use web::route::Parameter;

/// With what Adyen proves who it is.
const ADYENS: &str = "Basic realm=\"webhooks\"";

/// `POST /webhooks/stripe`
pub(super) async fn from_stripe(app: &App, request: &Request) -> Result<Answer, Problem> {
    let secrets = &app.config.stripe_webhook_secrets;
    signature(request)?.verify(secrets, &request.body, request.now_ms).map_err(refused)?;
    let read = read(request)?;
    let is_ours = read.is_of_mode(app.config.credentials.stripe.live);
    from_stripe_signed(app, &read, is_ours).await
}

/// `POST /webhooks/stripe/{account}`: signed with a secret of that account. Whoever has it can tell of that account's payments alone: an object takes
/// in what happened where its own calls went, and where that is stands in no event, but is said here. An account that does not exist is answered as
/// one that has not signed.
pub(super) async fn from_own_stripe(
    app: &App,
    request: &Request,
    account: &Parameter<'_, AccountId>,
) -> Result<Answer, Problem> {
    let signature = signature(request)?;
    let forged = || {
        let detail = "It was not signed with a webhook secret of this account.";
        of_nobody(app, request, Problem::because(Kind::WebhookSignature, detail))
    };
    let account = account.read()?.decoded().filter(|id| is_id(id)).ok_or_else(forged)?;
    let own = app.own_keys_of_named(&account, request).await?.ok_or_else(forged)?;
    signature.verify(&own.webhook_secrets().await, &request.body, request.now_ms).map_err(
        |why| match why {
            stripe::Refused::Forged => forged(),
            why => refused(why),
        },
    )?;
    let mut read = read(request)?;
    // Stripe sends what was acknowledged never again: it comes once there is a key to ask with.
    let Some(live) = own.is_live() else {
        return Err(again(format!("{account} has a webhook secret and no secret key")));
    };
    // An account that is connected to this one is nothing of ours.
    let is_ours = read.event.account.is_none() && read.is_of_mode(live);
    read.event.account = Some(name_of(&account));
    from_stripe_signed(app, &read, is_ours).await
}

fn read(request: &Request) -> Result<stripe::Read, Problem> {
    stripe::read(&request.body).map_err(|unreadable| {
        let detail = match unreadable {
            stripe::Unreadable::NoEvent => "The body is not an event of Stripe's.",
            stripe::Unreadable::Thin => {
                "The body is a thin event, which does not say of which payment. Let the endpoint have snapshot payloads."
            }
        };
        Problem::because(Kind::BadRequest, detail)
    })
}

async fn from_stripe_signed(app: &App, read: &stripe::Read, is_ours: bool) -> Result<Answer, Problem> {
    let object = match (read.object, &read.payment) {
        _ if !is_ours => None,
        (Some(object), _) => Some(object),
        (None, Some(payment)) => work::by_payment(&app.env, &read.event, payment).await.map_err(again)?,
        (None, None) => None,
    };
    let outcome = deliver(app, &read.event, object).await?;
    Ok(Answer::new(200, "application/json", json!({ "received": true }).to_string(), outcome))
}

/// `POST /webhooks/adyen`. That a report is there comes without a signature in some cases: then it is believed where the webhook has a password, and
/// else left to a person, and no more than some of them a minute from one network. It is acknowledged all the same: what is not holds up all that Adyen has to tell.
pub(super) async fn from_adyen(app: &App, request: &Request) -> Result<Answer, Problem> {
    let config = app.config.adyen.as_ref().ok_or_else(|| closed("ADYEN_HMAC_KEY"))?;
    let keys = &app.config.adyen_hmac_keys;
    let items = notifications(request)?;
    if !items.iter().all(|item| item.is_signed(keys) || item.is_unsigned_report()) {
        return Err(Problem::because(
            Kind::WebhookSignature,
            "It was not signed with a key of ADYEN_HMAC_KEY.",
        ));
    }
    let is_for_us = |item: &adyen::Item| item.merchant_account() == config.merchant_account;
    let (items, others): (Vec<_>, Vec<_>) = items.into_iter().partition(is_for_us);
    note_others(&others);
    // What is not signed is Adyen's by the webhook's password alone.
    let is_proven =
        |item: &&adyen::Item| app.config.adyen_webhook_auth.is_some() || !item.is_unsigned_report();
    let (proven, unproven): (Vec<_>, Vec<_>) =
        items.iter().filter(|item| item.tells_of_reports()).partition(is_proven);
    let of = |items: Vec<&adyen::Item>| -> Vec<Announcement> {
        items.into_iter().filter_map(|item| Announcement::of(item, request.now_ms)).collect()
    };
    let (reports, unproven) = (of(proven), of(unproven));
    if !reports.is_empty() {
        announce(&app.env, &reports, request.now_ms).await.map_err(again)?;
    }
    if !unproven.is_empty() && !app.is_flooding("unsigned reports", request) {
        app.count_guess("unsigned reports", request).await;
        leave_to_a_person(&app.env, &unproven, request.now_ms).await.map_err(again)?;
    }
    // A report tells of no payment: nothing else follows from it.
    let events = items.into_iter().filter(|item| !item.tells_of_reports());
    let entries = events.filter_map(|item| Entry::of(item, None, request.now_ms)).collect();
    let stored = store(app, entries, request).await?;
    Ok(taken_in(stored, !reports.is_empty()))
}

/// What is told, at least one thing.
fn notifications(request: &Request) -> Result<Vec<adyen::Item>, Problem> {
    adyen::items(&request.body)
        .filter(|items| !items.is_empty())
        .ok_or_else(|| Problem::because(Kind::BadRequest, "The body is not a notification of Adyen's."))
}

/// What Adyen has signed of another merchant account than is set: of another shop of the company's, or of the one that was set before.
fn note_others(items: &[adyen::Item]) {
    for item in items.iter().filter(|item| !item.is_unsigned_report()) {
        let fields = [
            ("event", "webhook_of_other_merchant".into()),
            ("event_key", item.key().into()),
            ("merchant_account", item.merchant_account().into()),
        ];
        log("warn", &fields);
    }
}

/// `POST /webhooks/adyen/{account}`: signed with a key of that account. As with Stripe, whoever has it can tell of that account's payments alone:
/// an object takes in what happened in the merchant account to which its own calls went with that account's key. A report is downloaded with a key of
/// that account, and its lines count for the merchant account alone that the API key is of.
pub(super) async fn from_own_adyen(
    app: &App,
    request: &Request,
    account: &Parameter<'_, AccountId>,
) -> Result<Answer, Problem> {
    let own = admit_own_adyen(app, request, account).await?;
    let keys = own.hmac_keys().await;
    let items = notifications(request)?;
    // That it is Adyen has been shown by the password.
    if !items.iter().all(|item| item.is_signed(&keys) || item.is_unsigned_report()) {
        return Err(Problem::because(
            Kind::WebhookSignature,
            "It was not signed with an HMAC key of this account.",
        ));
    }
    let known = own.merchant_account().map(|(merchant_account, _)| merchant_account);
    let is_known = |item: &&adyen::Item| known == Some(item.merchant_account());
    let announced = items.iter().filter(is_known).filter_map(|item| {
        let announced = Announcement::of(item, request.now_ms)?;
        Some(announced.of_account(&own.account, item.merchant_account()))
    });
    let reports: Vec<Announcement> = announced.collect();
    let is_early =
        known.is_none() && items.iter().any(|item| Announcement::of(item, request.now_ms).is_some());
    if !reports.is_empty() {
        announce(&app.env, &reports, request.now_ms).await.map_err(again)?;
    }
    let keys_name = name_of(&own.account);
    let events = items.into_iter().filter(|item| !item.tells_of_reports());
    let entries = events.filter_map(|item| {
        let merchant = Merchant { account: item.merchant_account(), live_prefix: None };
        let told_in = merchant.name(&keys_name);
        Entry::of(item, Some(&told_in), request.now_ms)
    });
    let stored = store(app, entries.collect(), request).await?;
    if is_early {
        // Adyen tells nothing again that was acknowledged: it comes once it is known whose report it is.
        return Err(again(format!("{} is told of a report and has no API key at Adyen", own.account)));
    }
    Ok(taken_in(stored, !reports.is_empty()))
}

/// The keys of an account at whose address Adyen tells something, with the user and the password of its webhook: without them no body is read.
/// An account that does not exist, or has none set, is answered alike.
pub(super) async fn admit_own_adyen(
    app: &App,
    request: &Request,
    account: &Parameter<'_, AccountId>,
) -> Result<Rc<OwnKeys>, Problem> {
    let wrong = || {
        let detail = "There is no such webhook, or its user or its password is wrong.";
        let problem = Problem { challenge: Some(ADYENS), ..Problem::because(Kind::Unauthorized, detail) };
        of_nobody(app, request, problem)
    };
    let authorization = request.header("authorization").ok_or_else(wrong)?;
    let account = account.read()?.decoded().filter(|id| is_id(id)).ok_or_else(wrong)?;
    let own = app.own_keys_of_named(&account, request).await?.ok_or_else(wrong)?;
    if !own.is_adyen(authorization).await {
        return Err(wrong());
    }
    Ok(own)
}

/// What is told whoever is not the provider of an account that is named: that; or, while too many accounts are made up from there, that it was not looked
/// up, of whatever account, since which ones have keys is nobody's to find out. The provider sends it again then.
fn of_nobody(app: &App, request: &Request, refused: Problem) -> Problem {
    if !app.makes_accounts_up(request) {
        return refused;
    }
    let detail = "The account was not looked up, as too many that are not there were named from this network. Send the event again.";
    Problem { retry_after_s: Some(10), ..Problem::because(Kind::Unavailable, detail) }
}

/// Writes events down, and works on them once they are acknowledged. Where they cannot be written down their objects take them in before: not all of
/// them come again. Gives what became of them, if there were any.
async fn store(app: &App, entries: Vec<Entry>, request: &Request) -> Result<Option<&'static str>, Problem> {
    if entries.is_empty() {
        return Ok(None);
    }
    if let Err(error) = work::store(&app.env, &entries, request.now_ms).await {
        log("error", &[("event", "inbox_failed".into()), ("error", error.to_string().into())]);
        work::deliver_unwritten(&app.env, &entries).await.map_err(again)?;
        return Ok(Some("taken_in"));
    }
    let keys = entries.into_iter().map(|entry| entry.key).collect();
    app.afterwards.set(Some(work::work_at_once(app.env.clone(), keys).boxed_local()));
    Ok(Some("stored"))
}

fn taken_in(stored: Option<&'static str>, is_announced: bool) -> Answer {
    let outcome = stored.unwrap_or(if is_announced { "announced" } else { "ignored" });
    Answer::new(200, "text/plain; charset=utf-8", adyen::ACCEPTED, outcome)
}

/// Whether an event could be the provider's, by its headers. Adyen signs inside the body: what its headers can show is the
/// password that is set with its webhook, where one is.
pub(super) fn admit(app: &App, request: &Request, provider: Provider) -> Result<(), Problem> {
    let config = &app.config;
    match provider {
        Provider::Stripe if config.stripe_webhook_secrets.is_empty() => Err(closed("STRIPE_WEBHOOK_SECRET")),
        Provider::Stripe => admit_signed(request),
        Provider::Adyen if config.adyen.is_none() || config.adyen_hmac_keys.is_empty() => {
            Err(closed("ADYEN_HMAC_KEY"))
        }
        Provider::Adyen if !config.is_adyen(request.header("authorization").unwrap_or_default()) => {
            let detail = "The user or the password of the webhook is wrong.";
            Err(Problem { challenge: Some(ADYENS), ..Problem::because(Kind::Unauthorized, detail) })
        }
        Provider::Adyen => Ok(()),
    }
}

/// Whether an event could be signed by Stripe, whoever's it is.
pub(super) fn admit_signed(request: &Request) -> Result<(), Problem> {
    signature(request).map(drop)
}

fn signature(request: &Request) -> Result<stripe::Signature<'_>, Problem> {
    stripe::Signature::parse(request.header("stripe-signature").unwrap_or_default()).map_err(refused)
}

fn refused(refused: stripe::Refused) -> Problem {
    Problem::because(
        Kind::WebhookSignature,
        match refused {
            stripe::Refused::NoSignature => "There is no Stripe-Signature, or it has another form.",
            stripe::Refused::Stale => {
                "It was signed more than five minutes ago, or by a clock that is ahead."
            }
            stripe::Refused::Forged => "It was not signed with a secret of STRIPE_WEBHOOK_SECRET.",
        },
    )
}

fn closed(name: &str) -> Problem {
    Problem::of_setting(
        Kind::WebhookSignature,
        format!(
            "This is closed, because {name} is not set: `npx wrangler secret put {name}` sets what the provider's dashboard \
             shows."
        ),
    )
}

async fn deliver(app: &App, event: &Event, object: Option<ObjectId>) -> Result<&'static str, Problem> {
    let Some(object) = object else {
        work::note(event, "not ours");
        return Ok("ignored");
    };
    // An id that was never one of our namespace's is signed by the provider all the same: of another deployment.
    if !work::is_ours(&app.env, object).map_err(again)? {
        work::note(event, "not ours");
        return Ok("ignored");
    }
    match work::deliver(&app.env, event, object).await.map_err(again)? {
        Ingested::Applied => Ok("taken_in"),
        Ingested::Duplicate => Ok("known"),
        Ingested::UnknownResource => {
            work::note(event, "not ours");
            Ok("ignored")
        }
        Ingested::OtherAccount => {
            work::note(event, "of another account");
            Ok("ignored")
        }
        Ingested::RetryLater => Err(again("the call that it is about is on its way")),
        Ingested::Alert { .. } | Ingested::Contradiction { .. } => Ok("contradiction"),
    }
}

fn again(error: impl ToString) -> Problem {
    log("error", &[("event", "webhook_failed".into()), ("error", error.to_string().into())]);
    Problem::because(Kind::Unreadable, "The event could not be taken in. Send it again.").retry_after_s(5)
}
