//! The engine with payments put in: what else is written `once::…<Payments>`, and what is configured for them. What the flows do is in
//! [`flows`](crate::flows).

use crate::payment::operation::{Operation, Point, Refusal};
use crate::payment::own_keys::{self, Merchant};
use crate::payment::provider::Provider;
use crate::payment::records::{Facts, JobKind};
use crate::payment::resource::Resource;
use crate::payment::result::ProviderResult;
use once::account::Credential;
use once::context::{self, Times};
use once::domain::{self, Domain};
use once::{begin, call, flow, object_state, record, run};

/// The flows of payments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Payments;

/// See [`context::Context`].
pub type Context = context::Context<Settings>;
/// See [`object_state::ObjectState`].
pub type ObjectState = object_state::ObjectState<Payments>;
/// See [`object_state::NewRows`].
pub type NewRows = object_state::NewRows<Payments>;
/// See [`object_state::StagedJob`].
pub type StagedJob = object_state::StagedJob<JobKind>;
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
    /// The same of the account's own key, see [`own_keys`]. `None` where it has none, or it cannot be used now.
    pub own_stripe: Option<Credential>,
    /// With Adyen: the address alone. Which company a key is of decides where the merchant account exists that stands in the
    /// bytes, so another company's key is refused there.
    pub adyen: Option<Credential>,
    /// The merchant account of which the account's own key is, see [`own_keys::credential_at`]. `None` where it has none, or it cannot be used
    /// now.
    pub own_adyen: Option<Credential>,
}

impl Credentials {
    /// Those of a provider, for a request that is sent for this account. `None` where it is not configured: an account with keys of its own
    /// has no others.
    pub fn with(&self, provider: Provider, account: Option<&str>) -> Option<Credential> {
        match provider {
            Provider::Stripe if account.is_some_and(|name| own_keys::account_of(name).is_some()) => {
                self.own_stripe
            }
            Provider::Stripe => Some(self.stripe),
            Provider::Adyen => match account.filter(|name| own_keys::account_of(name).is_some()) {
                Some(name) => self.own_adyen_at(name),
                None => self.adyen,
            },
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

impl Credentials {
    /// Of a merchant account with keys of its own: its name, which no other key changes. `None` where the account's key is of another one: what was
    /// begun is never sent with it.
    fn own_adyen_at(&self, name: &str) -> Option<Credential> {
        let merchant = Merchant::of(name)?;
        let is_its = self.own_adyen == Some(merchant.credential());
        is_its.then(|| Credential::of("", &[name], merchant.live_prefix.is_some()))
    }
}

/// Whether something can be sent to a provider for this account; only keys of an account's own can be missing.
pub fn are_keys_usable(provider: Provider, account: Option<&str>, ctx: &Context) -> bool {
    account.and_then(own_keys::account_of).is_none() || ctx.credential(provider, account).is_some()
}

impl domain::Settings<Provider> for Settings {
    fn credential(&self, provider: Provider, account: Option<&str>) -> Option<Credential> {
        self.credentials.as_ref()?.with(provider, account)
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
