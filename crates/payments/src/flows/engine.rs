//! The engine with the flows of payments put in: what else is written `once::…<Payments>`.

use super::resource::Resource;
use super::{Operation, Point, Refusal};
use crate::payment::records::{self, Facts, JobKind};
use crate::payment::{PaymentState, check, pii, projection, refunded_minor};
use crate::providers::Provider;
use crate::providers::result::ProviderResult;
use once::account::Credential;
use once::context::{self, Bug, Times};
use once::domain::{self, Domain};
use once::flow::{self, Admission, Flow};
use once::{begin, call, record, rows, run};

/// The flows of payments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Payments;

/// See [`context::Context`].
pub type Context = context::Context<Settings>;
/// See [`rows::Rows`].
pub type Rows = rows::Rows<Payments>;
/// See [`rows::NewRows`].
pub type NewRows = rows::NewRows<Payments>;
/// See [`rows::StagedJob`].
pub type StagedJob = rows::StagedJob<JobKind>;
/// See [`record::KeyRecord`].
pub type KeyRecord = record::KeyRecord<Payments>;
/// See [`record::Lifecycle`].
pub type Lifecycle = record::Lifecycle<Payments>;
/// See [`record::Open`].
pub type Open = record::Open<Payments>;
/// See [`record::RecoveryPoint`].
pub type RecoveryPoint = record::RecoveryPoint<Point>;
/// See [`begin::Command`].
pub type Command = begin::Command<Payments>;
/// See [`begin::Begin`].
pub type Begin = begin::Begin<Payments>;
/// See [`run::Run`].
pub type Run = run::Run<Payments>;
/// See [`run::Action`].
pub type Action = run::Action<Payments>;
/// See [`run::Event`].
pub type Event = run::Event<ProviderResult>;
/// See [`call::CallSpec`].
pub type CallSpec = call::CallSpec<Payments>;
/// See [`call::ProviderCall`].
pub type ProviderCall = call::ProviderCall<Payments>;
/// See [`call::ProviderReply`].
pub type ProviderReply = call::ProviderReply<ProviderResult>;
/// See [`call::Outcome`].
pub type Outcome = call::Outcome<ProviderResult>;
/// See [`call::LookUp`].
pub type LookUp = call::LookUp<ProviderResult>;
/// See [`call::CallState`].
pub type CallState = call::CallState<ProviderResult>;
/// See [`call::Settlement`].
pub type Settlement = call::Settlement<ProviderResult>;
/// See [`call::Evidence`].
pub type Evidence = call::Evidence<ProviderResult>;
/// See [`flow::Phase`].
pub type Phase<'a> = flow::Phase<'a, Payments>;
/// See [`flow::End`].
pub type End = flow::End<Payments>;

/// The configured limits of one object: what a request can make of it, however often it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limits {
    /// How many tries to pay an order there are.
    pub order_tries_max: u32,
    /// The pause after [`FREE_TRIES`](crate::flows::tries::FREE_TRIES) tries that failed, in ms; it doubles with each further one.
    pub try_pause_ms: u64,
    /// How many keys an object takes: tries, captures, voids and refunds together.
    pub keys_max: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { order_tries_max: 10, try_pause_ms: 15_000, keys_max: 200 }
    }
}

/// The credentials that are configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Credentials {
    /// With Stripe: the address and the secret key.
    pub stripe: Credential,
    /// With Adyen: the address alone. Which company a key is of decides where the merchant account exists that stands in the
    /// bytes, so another company's key is refused there.
    pub adyen: Option<Credential>,
}

impl Credentials {
    /// Those of a provider. `None` where it is not configured.
    pub const fn with(&self, provider: Provider) -> Option<Credential> {
        match provider {
            Provider::Stripe => Some(self.stripe),
            Provider::Adyen => self.adyen,
        }
    }
}

/// What is configured for the flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Settings {
    /// How much can be made of an object.
    pub limits: Limits,
    /// The credentials. Without them nothing is known of accounts.
    pub credentials: Option<Credentials>,
}

impl domain::Settings<Provider> for Settings {
    fn credential(&self, provider: Provider) -> Option<Credential> {
        self.credentials.as_ref()?.with(provider)
    }
}

/// What a step is given, without any credentials.
pub const fn context(now_ms: u64, jitter_permille: u16, times: Times, limits: Limits) -> Context {
    let keys_max = limits.keys_max;
    Context { now_ms, jitter_permille, times, keys_max, settings: Settings { limits, credentials: None } }
}

/// The same, where these credentials are configured.
pub const fn with_credentials(mut ctx: Context, credentials: Credentials) -> Context {
    ctx.settings.credentials = Some(credentials);
    ctx
}

impl Domain for Payments {
    type Operation = Operation;
    type Resource = Resource;
    type Point = Point;
    type Provider = Provider;
    type Answer = ProviderResult;
    type Refusal = Refusal;
    type JobKind = JobKind;
    type Facts = Facts;
    type Settings = Settings;
}

impl Flow for Payments {
    fn name(operation: &Operation) -> &'static str {
        operation.name()
    }

    fn admit(operation: &Operation, phase: &mut Phase<'_>) -> Result<Admission<Self>, Bug> {
        let written = phase.rows.appended.facts.audit.len();
        let admission = super::admit(operation, phase)?;
        for record in phase.rows.appended.facts.audit.iter_mut().skip(written) {
            record.asked_by(phase.by);
        }
        Ok(admission)
    }

    fn run(operation: &Operation, phase: &mut Phase<'_>) -> Result<End, Bug> {
        super::run(operation, phase)
    }

    fn is_retired(operation: &Operation) -> bool {
        matches!(operation, Operation::Retired(_))
    }

    fn too_many_keys(keys_max: u32) -> Refusal {
        let detail = format!(
            "{keys_max} operations were begun on this payment, and that is as many as there may be. Nothing was run. What still \
             has to be done can be done at the provider.",
        );
        Refusal::LimitReached { detail }
    }

    fn is_overtaken(call: &ProviderCall, rows: &Rows) -> bool {
        super::is_overtaken(call, rows)
    }

    fn due_at_ms(rows: &Rows, ctx: &Context) -> Option<u64> {
        let check = rows.resource.payment.as_ref().and_then(check::due_at_ms);
        check.into_iter().chain(pii::due_at_ms(rows, ctx)).min()
    }

    fn on_commit(before: &Rows, after: &mut Rows, ctx: &Context) {
        projection::stage_projection(before, after, ctx);
        records::number(after);
    }

    fn verify(rows: &Rows) -> Result<(), Bug> {
        let Some(payment) = &rows.resource.payment else { return Ok(()) };
        let (amount, captured) = (payment.amount.get(), payment.captured_minor());
        // A capture may fail while a refund of it is under way.
        let taken =
            if matches!(payment.state, PaymentState::CaptureFailed { .. }) { amount } else { captured };
        let is_of_key = |key_id| rows.key(key_id).is_some();
        if amount == 0 || captured > amount || refunded_minor(&rows.resource.refunds) > taken {
            return Err(Bug(
                "a payment that cannot be: more was given back than taken, or taken than it is of".into(),
            ));
        }
        if rows.resource.refunds.iter().any(|refund| refund.amount.get() == 0 || !is_of_key(refund.key_id)) {
            return Err(Bug("a refund that cannot be: of nothing, or of no key".into()));
        }
        Ok(())
    }

    fn is_awaiting(rows: &Rows) -> bool {
        rows.resource.payment.as_ref().is_some_and(|payment| payment.check.is_some())
    }

    /// Drops personal data whose time is over.
    fn on_alarm(rows: &mut Rows, ctx: &Context) {
        if pii::due_at_ms(rows, ctx).is_some_and(|at_ms| at_ms <= ctx.now_ms) {
            pii::erase(rows, ctx);
        }
        // Objects of before anything was watched begin with it here.
        check::schedule(rows, ctx);
    }
}
