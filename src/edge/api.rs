//! An API client's POST: authentication, key, parameters, then the object. In this order, and nothing is stored before all
//! three are good.

use std::borrow::Cow;
use std::rc::Rc;

use super::app::{App, ObjectRef};
use super::fields::NotAllowed;
use super::return_key::sign_way_back;
use super::{copies, reply};
use crate::accounts::Found;
use crate::replay_cache::requests::Seen;
use messages::account::Account;
use messages::message::{
    Answered, BindResult, Execute, ExecuteResult, Fault, Located, ObjectRequest, Shown, View,
};
use once::fingerprint::{Canonical, Field, FieldError, Fingerprint, Parameters};
use once::id::{ObjectId, Owner};
use once::key::{IdempotencyKey, KeyHash};
use once::record::Channel;
use payments::engine::Command;
use payments::payment::natural_key::NaturalKey;
use payments::payment::operation::Operation;
use runtime::log::log;
use runtime::metrics;
use runtime::random;
use runtime::serve::session;
pub(super) use runtime::serve::{unavailable, unreadable};
use web::credentials;
use web::entries::{TRANSPORT_FIELDS, in_address};
use web::http::{Answer, Request};
use web::key_source;
pub(super) use web::problem::invalid_parameters;
use web::problem::{Kind, Problem};
use web::reply::{RATE_PERIOD_S, echoing};

/// The account that a request names with `Authorization`; in the lab there is one for requests without it.
pub(super) async fn account(app: &App, request: &Request) -> Result<(Owner, Rc<Account>), Problem> {
    let Some(token) = credentials::token(request, app.config.demo)? else {
        let (id, account) = app.config.anonymous().ok_or_else(|| Problem::new(Kind::Unauthorized))?;
        return Ok((Owner::Account(id.to_owned()), Rc::clone(account)));
    };
    match app.account_of_token(token, request).await? {
        Found::Account(id, account) => Ok((Owner::Account(id), account)),
        Found::Nobody => Err(credentials::unknown_token()),
        Found::TooMany => {
            let detail =
                "Too many tokens that are not known here came from your address. Try again in a minute.";
            Err(Problem::because(Kind::RateLimited, detail).retry_after_s(RATE_PERIOD_S))
        }
    }
}

/// Who reads: the account of the credentials. For a browser, which has none, there is nothing here.
pub(super) async fn reader(app: &App, request: &Request) -> Result<Owner, Problem> {
    account(app, request).await.map(|(owner, _)| owner).map_err(|problem| {
        let is_browser = || request.wants_html() || session(request).is_ok_and(|session| !session.is_new);
        if request.header("authorization").is_none() && is_browser() {
            Problem::new(Kind::NotFound)
        } else {
            problem
        }
    })
}

/// Refuses parameters in the address, where no key stands for the request.
pub(super) fn no_query(request: &Request) -> Result<(), Problem> {
    let errors = in_address(&request.query);
    if errors.is_empty() { Ok(()) } else { Err(invalid_parameters(errors)) }
}

/// What its owner sees of an object.
pub(super) async fn show(app: &App, place: &ObjectRef, ask: ObjectRequest) -> Result<View, Problem> {
    match app.ask::<Shown>(place, ask).await {
        Ok(Some(view)) => Ok(view),
        Ok(None) => Err(Problem::new(Kind::NotFound)),
        Err(error) => Err(unreadable(error)),
    }
}

/// An API client's request: authenticated, and its body read. A missing key is reported before a body of an unknown type. A malformed body is
/// reported first: it may hold the key, or what makes a natural one, twice.
pub(super) struct Call<'a> {
    app: &'a App,
    request: &'a Request,
    /// The address for which the key stands.
    path: Cow<'a, str>,
    owner: Owner,
    pub(super) account: Rc<Account>,
    key: Option<IdempotencyKey>,
    fault: Option<Fault>,
    /// What is not allowed. Nothing is begun then, and it is said where the key is new.
    not_allowed: Vec<FieldError>,
    /// Without what only the transport needs.
    pub(super) parameters: Parameters,
}

/// Where an operation runs, if not in its key's own object.
pub(super) struct TargetObject {
    /// The order's, or the payment's.
    pub(super) place: ObjectRef,
    /// The key that the operation itself makes, if the client sends none; and what is fingerprinted under it.
    pub(super) natural: (NaturalKey, Parameters),
}

impl<'a> Call<'a> {
    /// Reads a request. `has_natural_key` says whether the parameters make a key themselves.
    pub(super) async fn with_key(
        app: &'a App,
        request: &'a Request,
        has_natural_key: impl FnOnce(Option<&Parameters>) -> bool,
    ) -> Result<Self, Problem> {
        let (owner, account) = account(app, request).await?;
        let body = request.parameters();
        let key = key_source::key(request, body.as_ref().ok())?;
        let is_garbled = body.as_ref().is_err_and(|problem| problem.kind == Kind::BadRequest);
        let is_missing = key.is_none() && !is_garbled && !has_natural_key(body.as_ref().ok());
        if is_missing && app.config.key_is_required {
            return Err(key_source::missing(request));
        }
        let body = body?;
        let fault = fault(app, &body)?;
        let (path, parameters) = (Cow::Borrowed(request.path.as_str()), body.without(&TRANSPORT_FIELDS));
        let not_allowed = in_address(&request.query);
        Ok(Self { app, request, path, owner, account, key, fault, not_allowed, parameters })
    }

    /// The same request as at this address: it has two.
    pub(super) fn at(self, path: String) -> Self {
        Self { path: Cow::Owned(path), ..self }
    }

    /// What is asked for. Where that is not allowed nothing is begun: what is known under the key is answered as ever, and all else with what is
    /// wrong. So that what was done while it was allowed is told of also when it is not allowed any more.
    pub(super) fn asked<T>(&mut self, read: Result<T, NotAllowed<T>>) -> Result<T, Problem> {
        let NotAllowed { errors, asked } = match read {
            Ok(asked) => return Ok(asked),
            Err(not_allowed) => not_allowed,
        };
        self.not_allowed.extend(errors);
        let wrong = || invalid_parameters(std::mem::take(&mut self.not_allowed));
        asked.map(|asked| *asked).ok_or_else(wrong)
    }

    /// Whether the client has sent a key.
    pub(super) const fn has_key(&self) -> bool {
        self.key.is_some()
    }

    /// Who asks.
    pub(super) const fn owner(&self) -> &Owner {
        &self.owner
    }

    /// The operation under its key: in the key's own object, or elsewhere.
    pub(super) async fn run(
        self,
        operation: Operation,
        elsewhere: Option<TargetObject>,
    ) -> Result<Answer, Problem> {
        let echoed = self.key.clone().filter(|_| self.app.config.convention.echoes_key);
        let answer = self.answer(operation, elsewhere).await?;
        Ok(match echoed {
            Some(key) => echoing(answer, key.as_str()),
            None => answer,
        })
    }

    async fn answer(self, operation: Operation, elsewhere: Option<TargetObject>) -> Result<Answer, Problem> {
        let Self { app, request, path, owner, key, fault, not_allowed, parameters, .. } = self;
        let refusal = (!not_allowed.is_empty()).then(|| invalid_parameters(not_allowed));
        let (place, natural) = match elsewhere {
            Some(TargetObject { place, natural }) => (Some(place), Some(natural)),
            None => (None, None),
        };
        let is_explicit = key.is_some();
        let (key_hash, parameters) = match (key, natural) {
            (Some(key), _) => (key.hash(&owner), parameters),
            (None, Some((key, parameters))) => (key.hash(&owner), parameters),
            // It is run once, and a retry of it is another request.
            (None, None) => {
                if let Some(refusal) = refusal {
                    return Err(refusal);
                }
                let fields = [("event", "key_missing".into()), ("request_id", request.id.0.as_str().into())];
                log("warn", &fields);
                metrics::key_missing();
                (IdempotencyKey::from(random::uuid().map_err(unavailable)?).hash(&owner), parameters)
            }
        };
        let own = ObjectRef::Named(key_hash.object_name());
        let canonical = parameters.canonical()?;
        let command = Command {
            owner,
            fingerprint: Fingerprint::of(&request.method, &path, &canonical),
            key_hash,
            parameters: canonical,
            operation,
            channel: Channel::Api,
            request_id: request.id.clone(),
            may_start: refusal.is_none(),
            by: None,
            trace: None,
        };
        let (owner, key_hash) = (command.owner.clone(), command.key_hash.clone());
        let fingerprint = command.fingerprint.clone();
        let seen = |object| {
            let (owner, key_hash, fingerprint) = (owner.clone(), key_hash.clone(), fingerprint.clone());
            Seen { owner, key_hash, fingerprint, object }
        };
        if let Some((replay, object)) = copies::replay(app, &command) {
            // Which key it is that an operation makes by itself may be another one the next time.
            app.seen.set(is_explicit.then(|| seen(object)));
            let answer = reply::execute_result(replay, Channel::Api, request, "", app.response_options());
            return Ok(answer.under(&owner, &key_hash));
        }
        let mut is_counted = false;
        let place = match place {
            Some(place) if is_explicit && let Some(refusal) = &refusal => {
                let object = app.object_id(&place).map_err(unavailable)?;
                let bound = locate(app, &own, &command.owner, &command.key_hash).await;
                match bound.map_err(|error| unheard(&error, &Operation::resource_path(object)))? {
                    Some(object) => ObjectRef::Id(object),
                    None => return Err(refusal.clone()),
                }
            }
            Some(place) if is_explicit => {
                match bind(app, (request.method.as_str(), &path), &own, &command, &place).await? {
                    Ok((object, was_counted)) => {
                        is_counted = was_counted;
                        ObjectRef::Id(object)
                    }
                    Err(refusal) => {
                        let names = (&own, &command.owner, &command.key_hash, &command.parameters);
                        let (mismatch, elsewhere) = with_fields(app, names, refusal).await;
                        let resource = elsewhere.map(Operation::resource_path).unwrap_or_default();
                        let options = app.response_options();
                        let answer =
                            reply::execute_result(mismatch, Channel::Api, request, &resource, options);
                        return Ok(answer.under(&owner, &key_hash));
                    }
                }
            }
            Some(place) => place,
            None => own.clone(),
        };
        let object = app.object_id(&place).map_err(unavailable)?;
        let place = ObjectRef::Id(object);
        let resource = Operation::resource_path(object);
        let wait_ms = key_source::wait_ms(request, app.config.times.wait_ms);
        let parameters = command.parameters.clone();
        let ask = Execute { command, wait_ms, fault, is_counted };
        let answered =
            run_whole(app, &place, ask).await.map_err(|Unreachable| Problem::unreachable(&resource))?;
        if let Some(refusal) = refusal
            && matches!(answered.message, ExecuteResult::NotStarted | ExecuteResult::Mismatch { .. })
        {
            return Err(refusal);
        }
        if let (Some(finality), ExecuteResult::Finished { response, original_request, .. }) =
            (answered.finality, &answered.message)
        {
            let seen = seen(object);
            copies::keep(&app.config, request.now_ms, &seen, finality, (response, original_request));
            app.seen.set(is_explicit.then_some(seen));
        }
        let names = (&own, &owner, &key_hash, &parameters);
        let (result, elsewhere) = with_fields(app, names, answered.message).await;
        // A key that was used at another payment made nothing in its own object.
        let resource = elsewhere.map_or(resource, Operation::resource_path);
        let answer = reply::execute_result(result, Channel::Api, request, &resource, app.response_options());
        Ok(answer.under(&owner, &key_hash))
    }
}

/// Binds a key, in its own object, to the object in which its operation runs. Gives that object, and whether that was counted against the account's
/// rate; or the refusal.
async fn bind(
    app: &App,
    (method, path): (&str, &str),
    own: &ObjectRef,
    command: &Command,
    place: &ObjectRef,
) -> Result<Result<(ObjectId, bool), ExecuteResult>, Problem> {
    let object = app.object_id(place).map_err(unavailable)?;
    let address = Fingerprint::of_address(method, path);
    let command = Command { fingerprint: address, ..command.clone() };
    let resource = Operation::resource_path(object);
    let ask = ObjectRequest::Bind { command: Box::new(command), object: object.to_hex(), is_counted: true };
    let bound = app.ask::<BindResult>(own, ask).await.map_err(|error| unheard(&error, &resource))?;
    let (hex, was_counted) = match bound {
        BindResult::To(hex) => (hex, false),
        BindResult::Counted(hex) => (hex, true),
        BindResult::Mismatch { fields } => return Ok(Err(ExecuteResult::Mismatch { fields })),
        BindResult::RateLimited => return Ok(Err(ExecuteResult::RateLimited)),
    };
    let object = ObjectId::from_hex(&hex)
        .ok_or_else(|| unavailable(worker::Error::RustError("an object's id of another form".to_owned())))?;
    Ok(Ok((object, was_counted)))
}

/// A key's own object says of a key that is bound to another one only that it stands for another request. In which fields that differs is known
/// where it runs, as long as its parameters are kept there.
async fn with_fields(
    app: &App,
    (own, owner, key_hash, parameters): (&ObjectRef, &Owner, &KeyHash, &Canonical),
    result: ExecuteResult,
) -> (ExecuteResult, Option<ObjectId>) {
    match result {
        ExecuteResult::Mismatch { fields } if fields.is_empty() => {
            let elsewhere = locate(app, own, owner, key_hash).await.ok().flatten();
            let asked = match elsewhere {
                Some(object) => asked_there(app, object, owner, key_hash).await,
                None => None,
            };
            let fields = asked.map(|kept| kept.differing_fields(parameters)).unwrap_or_default();
            (ExecuteResult::Mismatch { fields }, elsewhere)
        }
        other => (other, None),
    }
}

/// The other object that a key is bound to.
async fn locate(
    app: &App,
    own: &ObjectRef,
    owner: &Owner,
    key_hash: &KeyHash,
) -> worker::Result<Option<ObjectId>> {
    let ask = ObjectRequest::Locate { owner: owner.clone(), key_hash: key_hash.clone() };
    Ok(app.ask::<Located>(own, ask).await?.and_then(|hex| ObjectId::from_hex(&hex)))
}

/// The key's object gave no answer: nobody knows what is known under the key.
fn unheard(error: &worker::Error, resource: &str) -> Problem {
    log_unreachable(error);
    Problem::unreachable(resource)
}

/// An object gave no answer to what needs no key: it is not known whether it was done, as `detail` says, and what to do.
pub(super) fn not_known(error: &worker::Error, detail: &str) -> Problem {
    log_unreachable(error);
    Problem::because(Kind::OutcomeUnknown, detail).retry_after_s(1)
}

fn log_unreachable(error: &worker::Error) {
    log("error", &[("event", "object_unreachable".into()), ("error", error.to_string().into())]);
}

/// What was asked under a key in that object.
async fn asked_there(app: &App, object: ObjectId, owner: &Owner, key_hash: &KeyHash) -> Option<Canonical> {
    let ask = ObjectRequest::Show { owner: owner.clone(), key_hash: Some(key_hash.clone()), refresh: false };
    show(app, &ObjectRef::Id(object), ask).await.ok()?.parameters
}

/// The object gave no answer: nobody knows whether the request reached it. The same key finds out.
pub(super) struct Unreachable;

/// Asks the object to run.
pub(super) async fn run(app: &App, place: &ObjectRef, ask: Execute) -> Result<ExecuteResult, Unreachable> {
    run_whole(app, place, ask).await.map(|answered| answered.message)
}

/// The same, with all that the object tells.
async fn run_whole(
    app: &App,
    place: &ObjectRef,
    mut ask: Execute,
) -> Result<Answered<ExecuteResult>, Unreachable> {
    let unreachable = |error: worker::Error| {
        log_unreachable(&error);
        Unreachable
    };
    if let Operation::Payment(payment) = &mut ask.command.operation {
        let object = app.object_id(place).map_err(unreachable)?;
        sign_way_back(payment, object, &app.config.signing_keys);
    }
    app.ask_whole(place, ObjectRequest::Run(Box::new(ask))).await.map_err(unreachable)
}

/// `raise_error`, in the demo: fail inside the flow, once.
pub(super) fn fault(app: &App, parameters: &Parameters) -> Result<Option<Fault>, Problem> {
    let asked = match parameters.text("raise_error") {
        Field::Missing => return Ok(None),
        Field::Text(text) => text,
        Field::NotText => String::new(),
    };
    match asked.as_str() {
        "false" => Ok(None),
        "true" if app.config.demo => Ok(Some(Fault::Error)),
        "crash" if app.config.demo => Ok(Some(Fault::Crash)),
        "crash_after_call" if app.config.demo => Ok(Some(Fault::CrashAfterCall)),
        _ => Err(invalid_parameters(vec![FieldError {
            field: "raise_error".to_owned(),
            message: "is `true`, `crash` or `crash_after_call`, and in the demo only".to_owned(),
        }])),
    }
}
