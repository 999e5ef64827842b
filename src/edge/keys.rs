//! An idempotency key, for its owner: where it stands, and to forget what it answered.

use super::api::{reader, unavailable, unreadable};
use super::app::{App, ObjectRef};
use super::ask::not_known;
use super::reply;
use crate::replay_cache::isolate;
use messages::message::{Located, ObjectRequest, Shown};
use once::alarm::Forgotten;
use once::id::{ObjectId, Owner};
use once::key::{IdempotencyKey, KeyHash};
use payments::payment::id::PaymentId;
use web::http::{Answer, Request, percent_decode};
use web::problem::{Kind, Problem};

/// A key, its owner, and the object that has the key's name.
struct Place {
    owner: Owner,
    key_hash: KeyHash,
    own: ObjectRef,
}

impl Place {
    async fn of(app: &App, request: &Request, encoded: &str) -> Result<Self, Problem> {
        let owner = reader(app, request).await?;
        let text = percent_decode(encoded).ok_or_else(|| Problem::new(Kind::NotFound))?;
        let key = IdempotencyKey::parse(&text)
            .map_err(|error| Problem::because(Kind::KeyInvalid, error.to_string()))?;
        let key_hash = key.hash(&owner);
        let own = ObjectRef::Named(key_hash.object_name());
        Ok(Self { owner, key_hash, own })
    }

    /// The object in which the key's operation runs, if the key was bound to another one.
    async fn elsewhere(&self, app: &App) -> Result<Option<ObjectId>, Problem> {
        let ask = ObjectRequest::Locate { owner: self.owner.clone(), key_hash: self.key_hash.clone() };
        let located = app.ask::<Located>(&self.own, ask).await.map_err(unreadable)?;
        Ok(located.as_deref().and_then(ObjectId::from_hex))
    }
}

/// `GET /idempotency-keys/{key}`
pub(super) async fn show(app: &App, request: &Request, encoded: &str) -> Result<Answer, Problem> {
    let place = Place::of(app, request, encoded).await?;
    let ask = || ObjectRequest::Show {
        owner: place.owner.clone(),
        key_hash: Some(place.key_hash.clone()),
        refresh: false,
    };
    let mut object = app.object_id(&place.own).map_err(unavailable)?;
    let mut shown = app.ask::<Shown>(&place.own, ask()).await.map_err(unreadable)?;
    if shown.is_none()
        && let Some(elsewhere) = place.elsewhere(app).await?
    {
        object = elsewhere;
        shown = app.ask::<Shown>(&ObjectRef::Id(object), ask()).await.map_err(unreadable)?;
    }
    let view = shown.ok_or_else(|| Problem::new(Kind::NotFound))?;
    Ok(reply::key(&view.key, &PaymentId::in_object(object).path()))
}

/// What is told where the key's object gave no answer.
const NOT_KNOWN: &str = "It is not known whether the response was forgotten. Send the same request again after the time in Retry-After.";

/// `DELETE /idempotency-keys/{key}`: the response goes before its time, the tombstone stays.
pub(super) async fn forget(app: &App, request: &Request, encoded: &str) -> Result<Answer, Problem> {
    let place = Place::of(app, request, encoded).await?;
    let ask = || ObjectRequest::Forget { owner: place.owner.clone(), key_hash: place.key_hash.clone() };
    let mut forgotten =
        app.ask::<Forgotten>(&place.own, ask()).await.map_err(|error| not_known(&error, NOT_KNOWN))?;
    if forgotten == Forgotten::Unknown
        && let Some(elsewhere) = place.elsewhere(app).await?
    {
        let there = ObjectRef::Id(elsewhere);
        forgotten =
            app.ask::<Forgotten>(&there, ask()).await.map_err(|error| not_known(&error, NOT_KNOWN))?;
    }
    match forgotten {
        Forgotten::Gone => {
            // Its object may be in another isolate.
            isolate::forget(&place.key_hash);
            Ok(Answer::empty(204, "forgotten"))
        }
        Forgotten::Unknown => Err(Problem::new(Kind::NotFound)),
        Forgotten::Unfinished => {
            let detail =
                "The operation of this key is not finished. Only what was answered can be forgotten.";
            Err(Problem::because(Kind::InProgress, detail).retry_after_s(1))
        }
    }
}
