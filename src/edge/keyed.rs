//! A request under its key: the object in which it runs, and the answer for what came of it there.

use super::app::{App, ObjectRef};
use super::ask::{Unreachable, log_unreachable, run_whole, show};
use super::{copies, reply};
use crate::replay_cache::requests::Seen;
use messages::message::{Answered, BindResult, Execute, ExecuteResult, Fault, Located, ObjectRequest};
use once::fingerprint::Fingerprint;
use once::id::ObjectId;
use once::record::Channel;
use payments::engine::Command;
use payments::payment::operation::Operation;
use runtime::serve::unavailable;
use web::http::{Answer, Request};
use web::key_source;
use web::problem::Problem;

/// A request of an API client, and the key for which it stands.
pub(super) struct Keyed<'a> {
    pub(super) app: &'a App,
    pub(super) request: &'a Request,
    /// The address for which the key stands.
    pub(super) path: &'a str,
    /// What is to run.
    pub(super) command: Command,
    /// Whether the client has sent the key. One that an operation makes by itself may be another one the next time.
    pub(super) is_explicit: bool,
    /// Why nothing may be begun: a new key gets this answer, and one that is known its own.
    pub(super) refusal: Option<Problem>,
}

/// Where a key's operation runs.
enum Placement {
    /// In this object.
    At {
        object: ObjectId,
        /// Whether binding the key there was counted against the account's rate.
        is_counted: bool,
    },
    /// Nowhere: the key is another request's, or too much was begun.
    Refused(ExecuteResult),
}

impl Keyed<'_> {
    /// The answer: from the isolate's copy, or from the object in which it runs. That is the key's own one, unless the operation runs in `target`.
    pub(super) async fn answer(
        self,
        target: Option<ObjectRef>,
        fault: Option<Fault>,
    ) -> Result<Answer, Problem> {
        if let Some((replay, object)) = copies::replay(self.app, &self.command) {
            self.app.seen.set(self.is_explicit.then(|| self.seen(object)));
            return Ok(self.render(replay, ""));
        }
        let (object, is_counted) = match self.place(target).await? {
            Placement::At { object, is_counted } => (object, is_counted),
            Placement::Refused(result) => return Ok(self.respond(result, String::new()).await),
        };
        let resource = Operation::resource_path(object);
        let wait_ms = key_source::wait_ms(self.request, self.app.config.times.wait_ms);
        let ask = Execute { command: self.command.clone(), wait_ms, fault, is_counted };
        let answered = run_whole(self.app, &ObjectRef::Id(object), ask)
            .await
            .map_err(|Unreachable| Problem::unreachable(&resource))?;
        if let Some(refusal) = &self.refusal
            && matches!(answered.message, ExecuteResult::NotStarted | ExecuteResult::Mismatch { .. })
        {
            return Err(refusal.clone());
        }
        self.keep(&answered, object);
        Ok(self.respond(answered.message, resource).await)
    }

    /// The object in which it runs.
    async fn place(&self, target: Option<ObjectRef>) -> Result<Placement, Problem> {
        let at = |place: &ObjectRef| self.app.object_id(place).map_err(unavailable);
        match (target, &self.refusal) {
            (None, _) => Ok(Placement::At { object: at(&self.own_object())?, is_counted: false }),
            (Some(target), _) if !self.is_explicit => {
                Ok(Placement::At { object: at(&target)?, is_counted: false })
            }
            (Some(target), None) => self.bind(at(&target)?).await,
            // Nothing is bound that may not begin.
            (Some(target), Some(refusal)) => {
                let resource = Operation::resource_path(at(&target)?);
                let bound = self.locate().await.map_err(|error| unheard(&error, &resource))?;
                let object = bound.ok_or_else(|| refusal.clone())?;
                Ok(Placement::At { object, is_counted: false })
            }
        }
    }

    /// Binds the key, in its own object, to the object in which its operation runs; or gives the one to which it is bound already.
    async fn bind(&self, object: ObjectId) -> Result<Placement, Problem> {
        let address = Fingerprint::of_address(&self.request.method, self.path);
        let command = Box::new(Command { fingerprint: address, ..self.command.clone() });
        let ask = ObjectRequest::Bind { command, object: object.to_hex(), is_counted: true };
        let bound = self.app.ask::<BindResult>(&self.own_object(), ask).await;
        let resource = Operation::resource_path(object);
        let (hex, is_counted) = match bound.map_err(|error| unheard(&error, &resource))? {
            BindResult::To(hex) => (hex, false),
            BindResult::Counted(hex) => (hex, true),
            BindResult::Mismatch { fields } => {
                return Ok(Placement::Refused(ExecuteResult::Mismatch { fields }));
            }
            BindResult::RateLimited => return Ok(Placement::Refused(ExecuteResult::RateLimited)),
        };
        let object = ObjectId::from_hex(&hex).ok_or_else(|| {
            unavailable(worker::Error::RustError("an object's id of another form".to_owned()))
        })?;
        Ok(Placement::At { object, is_counted })
    }

    /// The object that has the key's name.
    fn own_object(&self) -> ObjectRef {
        ObjectRef::Named(self.command.key_hash.object_name())
    }

    /// The other object to which the key is bound.
    async fn locate(&self) -> worker::Result<Option<ObjectId>> {
        let Command { owner, key_hash, .. } = &self.command;
        let ask = ObjectRequest::Locate { owner: owner.clone(), key_hash: key_hash.clone() };
        let located = self.app.ask::<Located>(&self.own_object(), ask).await?;
        Ok(located.and_then(|hex| ObjectId::from_hex(&hex)))
    }

    /// Keeps a response that will not change, for whoever sends the same again.
    fn keep(&self, answered: &Answered<ExecuteResult>, object: ObjectId) {
        let (Some(finality), ExecuteResult::Finished { response, original_request, .. }) =
            (answered.finality, &answered.message)
        else {
            return;
        };
        let seen = self.seen(object);
        let kept = (response, original_request);
        copies::keep(&self.app.config, self.request.now_ms, &seen, finality, kept);
        self.app.seen.set(self.is_explicit.then_some(seen));
    }

    /// What the fast path knows this request by.
    fn seen(&self, object: ObjectId) -> Seen {
        let Command { owner, key_hash, fingerprint, .. } = &self.command;
        Seen { owner: owner.clone(), key_hash: key_hash.clone(), fingerprint: fingerprint.clone(), object }
    }

    /// The answer for a result. A key's own object says of one that is bound elsewhere only that it is another request's: in which fields they differ
    /// is known where it runs, and `resource` is what is there.
    async fn respond(&self, result: ExecuteResult, resource: String) -> Answer {
        match result {
            ExecuteResult::Mismatch { fields } if fields.is_empty() => {
                let elsewhere = self.locate().await.ok().flatten();
                let fields = match elsewhere {
                    Some(object) => self.differing_fields(object).await,
                    None => fields,
                };
                let resource = elsewhere.map_or(resource, Operation::resource_path);
                self.render(ExecuteResult::Mismatch { fields }, &resource)
            }
            result => self.render(result, &resource),
        }
    }

    /// In which fields this differs from what was asked under the key in that object, as long as that is kept there.
    async fn differing_fields(&self, object: ObjectId) -> Vec<String> {
        let Command { owner, key_hash, .. } = &self.command;
        let (owner, key_hash) = (owner.clone(), Some(key_hash.clone()));
        let ask = ObjectRequest::Show { owner, key_hash, refresh: false };
        let view = show(self.app, &ObjectRef::Id(object), ask).await.ok();
        let asked = view.and_then(|view| view.parameters);
        asked.map(|asked| asked.differing_fields(&self.command.parameters)).unwrap_or_default()
    }

    fn render(&self, result: ExecuteResult, resource: &str) -> Answer {
        let options = self.app.response_options();
        let answer = reply::execute_result(result, Channel::Api, self.request, resource, options);
        answer.under(&self.command.owner, &self.command.key_hash)
    }
}

/// The key's object gave no answer: nobody knows what is known under the key.
fn unheard(error: &worker::Error, resource: &str) -> Problem {
    log_unreachable(error);
    Problem::unreachable(resource)
}
