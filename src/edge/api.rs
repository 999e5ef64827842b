//! An API client's POST: authentication, key, parameters, then the object. In this order, and nothing is stored before all
//! three are good.

use std::borrow::Cow;
use std::rc::Rc;

use super::app::{App, ObjectRef};
use super::fields::NotAllowed;
use super::keyed::Keyed;
use crate::accounts::Found;
use messages::account::Account;
use messages::message::Fault;
use once::fingerprint::{Field, FieldError, Fingerprint, Parameters};
use once::id::Owner;
use once::key::IdempotencyKey;
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
        let (target, natural) = elsewhere.map(|it| (it.place, it.natural)).unzip();
        let is_explicit = key.is_some();
        let (key_hash, parameters) = match (key, natural) {
            (Some(key), _) => (key.hash(&owner), parameters),
            (None, Some((key, parameters))) => (key.hash(&owner), parameters),
            (None, None) if let Some(refusal) = refusal => return Err(refusal),
            (None, None) => (random_key(request)?.hash(&owner), parameters),
        };
        let parameters = parameters.canonical()?;
        let command = Command {
            owner,
            fingerprint: Fingerprint::of(&request.method, &path, &parameters),
            key_hash,
            parameters,
            operation,
            channel: Channel::Api,
            request_id: request.id.clone(),
            may_start: refusal.is_none(),
            by: None,
            trace: None,
        };
        Keyed { app, request, path: &path, command, is_explicit, refusal }.answer(target, fault).await
    }
}

/// A key for a request that has none: it runs once, and a retry of it is another request.
fn random_key(request: &Request) -> Result<IdempotencyKey, Problem> {
    log("warn", &[("event", "key_missing".into()), ("request_id", request.id.0.as_str().into())]);
    metrics::key_missing();
    Ok(IdempotencyKey::from(random::uuid().map_err(unavailable)?))
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
