//! `POST /webhooks/{provider}`: what a provider tells by itself. The signature is checked over the raw body before anything
//! in it is believed; the object that is meant takes the event in, once.
//!
//! Outcomes: 200 as soon as it is written down, also for what means nothing here; 400 for what is not signed by the
//! provider; 503 if it has to come again. What has no signature, or is too long, is refused before its body is read.

use serde::Deserialize;
use serde_json::json;

use super::app::App;
use super::http::{Answer, Request};
use super::problem::{Kind, Problem};
use crate::log::log;
use crate::machine::id::ObjectId;
use crate::object::client;
use crate::object::message::Ask;
use crate::providers::Provider;
use crate::readmodel::db::Db;
use crate::webhooks::{Event, Taken, adyen, stripe};

/// `POST /webhooks/stripe`
pub(super) async fn from_stripe(app: &App, request: &Request) -> Result<Answer, Problem> {
    let secrets = &app.config.stripe_webhook_secrets;
    signature(request)?.verify(secrets, &request.body, request.now_ms).map_err(refused)?;
    let read = stripe::read(&request.body)
        .ok_or_else(|| Problem::because(Kind::BadRequest, "The body is not an event of Stripe's."))?;
    let object = match (read.object, &read.payment) {
        (Some(object), _) => Some(object),
        (None, Some(payment)) => by_payment(app, payment).await?,
        (None, None) => None,
    };
    let outcome = deliver(app, read.event, object).await?;
    Ok(Answer::new(200, "application/json", json!({ "received": true }).to_string(), outcome))
}

/// `POST /webhooks/adyen`
pub(super) async fn from_adyen(app: &App, request: &Request) -> Result<Answer, Problem> {
    let config = app.config.adyen.as_ref().ok_or_else(|| closed("ADYEN_HMAC_KEY"))?;
    let keys = &app.config.adyen_hmac_keys;
    let items = adyen::items(&request.body)
        .ok_or_else(|| Problem::because(Kind::BadRequest, "The body is not a notification of Adyen's."))?;
    if items.iter().any(|item| !item.is_signed(keys)) {
        return Err(Problem::because(
            Kind::WebhookSignature,
            "It was not signed with a key of ADYEN_HMAC_KEY.",
        ));
    }
    let mut outcome = "ignored";
    for item in items {
        if item.merchant_account() != config.merchant_account {
            continue;
        }
        let (event, object) = item.read();
        outcome = deliver(app, event, object).await?;
    }
    Ok(Answer::new(200, "text/plain; charset=utf-8", adyen::ACCEPTED, outcome))
}

/// Whether an event could be the provider's, by its headers. Adyen signs inside the body: what its headers can show is the
/// password that is set with its webhook, where one is.
pub(super) fn admit(app: &App, request: &Request, provider: Provider) -> Result<(), Problem> {
    let config = &app.config;
    match provider {
        Provider::Stripe if config.stripe_webhook_secrets.is_empty() => Err(closed("STRIPE_WEBHOOK_SECRET")),
        Provider::Stripe => signature(request).map(drop),
        Provider::Adyen if config.adyen.is_none() || config.adyen_hmac_keys.is_empty() => {
            Err(closed("ADYEN_HMAC_KEY"))
        }
        Provider::Adyen if !config.is_adyen(request.header("authorization").unwrap_or_default()) => {
            Err(Problem::because(Kind::Unauthorized, "The user or the password of the webhook is wrong."))
        }
        Provider::Adyen => Ok(()),
    }
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
        Kind::Unauthorized,
        format!(
            "This is closed, because {name} is not set: `npx wrangler secret put {name}` sets what the provider's dashboard \
             shows."
        ),
    )
}

#[derive(Deserialize)]
struct Row {
    object: String,
}

/// The object of a payment that was not made by a call of ours alone: by the provider's id of it.
async fn by_payment(app: &App, payment: &str) -> Result<Option<ObjectId>, Problem> {
    let sql = "SELECT object FROM payments WHERE provider_payment = ?1
         UNION SELECT object FROM rides WHERE provider_payment = ?1 LIMIT 1";
    let found = match Db::of(&app.env) {
        Ok(db) => db.first::<Row>(sql, vec![payment.into()]).await,
        Err(error) => Err(error),
    };
    let found = found.map_err(again)?;
    Ok(found.and_then(|row| ObjectId::from_hex(&row.object)))
}

async fn deliver(app: &App, event: Event, object: Option<ObjectId>) -> Result<&'static str, Problem> {
    let Some(object) = object else {
        note(&event, "not ours");
        return Ok("ignored");
    };
    let taken: Taken = match client::ask(&app.env, object, &Ask::Event(Box::new(event.clone()))).await {
        Ok(taken) => taken,
        // An id that was never one of our namespace's is signed by the provider all the same: of another deployment.
        Err(_) if !app.exists(&super::app::ObjectRef::Id(object)) => Taken::Stranger,
        Err(error) => return Err(again(error)),
    };
    match taken {
        Taken::In => Ok("taken_in"),
        Taken::Known => Ok("known"),
        Taken::Stranger => {
            note(&event, "not ours");
            Ok("ignored")
        }
        Taken::Busy => Err(again("the call that it is about is on its way")),
        Taken::Alert { detail } | Taken::Contradiction { detail } => {
            note(&event, &detail);
            keep(app, &event, object, &detail).await.map_err(again)?;
            Ok("contradiction")
        }
    }
}

/// For a person, on the desk: what the provider says and we do not have.
async fn keep(app: &App, event: &Event, object: ObjectId, detail: &str) -> worker::Result<()> {
    let now_ms = worker::Date::now().as_millis();
    let sql = "INSERT INTO breaks (break_id, kind, provider, object, theirs, state, note, first_seen_at_ms, last_seen_at_ms)
         VALUES (?1, 'webhook', ?2, ?3, ?4, 'open', ?5, ?6, ?6) ON CONFLICT (break_id) DO NOTHING";
    let values = vec![
        format!("{}:{}", event.provider.as_str(), event.event_id).into(),
        event.provider.as_str().into(),
        object.to_hex().into(),
        event.kind.as_str().into(),
        detail.into(),
        now_ms.into(),
    ];
    Db::of(&app.env)?.run(sql, values).await.map(drop)
}

fn note(event: &Event, what: &str) {
    let fields = [
        ("event", "webhook".into()),
        ("provider", event.provider.as_str().into()),
        ("event_id", event.event_id.as_str().into()),
        ("kind", event.kind.as_str().into()),
        ("outcome", what.into()),
    ];
    log("warn", &fields);
}

fn again(error: impl ToString) -> Problem {
    log("error", &[("event", "webhook_failed".into()), ("error", error.to_string().into())]);
    let mut problem = Problem::because(Kind::Unreadable, "The event could not be taken in. Send it again.");
    problem.retry_after_s = Some(5);
    problem
}
