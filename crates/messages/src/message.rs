//! What the edge asks of an object, and what the object answers. JSON in both directions, with a version: while a
//! deploy rolls out, a new edge may speak to an old object.

use serde::{Deserialize, Serialize};

use crate::inspection::{CallView, Inspection};
use once::fingerprint::Canonical;
use once::id::Owner;
use once::key::KeyHash;
use once::object_state::TimelineEntry;
use once::trace::{TraceContext, optional};
use payments::engine::{Command, KeyRecord, Lifecycle, ObjectState, RecoveryPoint};
use payments::flows::tries::NextTry;
use payments::payment::customer::Customer;
use payments::payment::money::Currency;
use payments::payment::operation::{Point, Refusal};
use payments::payment::order_link::OrderLinks;
use payments::payment::provider_event::Event;
use payments::payment::tries::Try;
use payments::payment::{Payment, Refund};

/// The version of these messages.
pub const VERSION: u32 = 1;

/// A message with its version.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Envelope<T> {
    /// See [`VERSION`].
    pub version: u32,
    /// The span that sends it.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "optional")]
    pub trace: Option<TraceContext>,
    /// The message.
    pub message: T,
}

/// What an object answers, with its version.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Answered<T> {
    /// See [`VERSION`].
    pub version: u32,
    /// How long it has waited for the provider, in ms.
    #[serde(default)]
    pub provider_ms: u64,
    /// That the answer is final, where it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finality: Option<Finality>,
    /// The answer.
    pub message: T,
}

/// That an operation has ended: whoever was told how may tell the same to a replay, without asking again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finality {
    /// For how long the object itself will still answer like that, in ms.
    pub lasts_ms: u64,
    /// Each replay is a charge that did not happen.
    pub took_money: bool,
}

/// What the edge asks.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ObjectRequest {
    /// Run an operation under a key, or answer from what it did.
    Run(Box<Execute>),
    /// Bind a key, in its own object, to the object in which its operation runs.
    Bind {
        /// The request.
        #[serde(rename = "arrival")]
        command: Box<Command>,
        /// Where it is to run, as hexadecimal digits.
        object: String,
        /// A new one counts against the account's rate. Edges of the release before do not say so: there the operation is counted, once it is admitted.
        #[serde(default)]
        is_counted: bool,
    },
    /// Show the resource and its key, to its owner.
    Show {
        /// Who asks.
        owner: Owner,
        /// Which key; the newest one, if it is not said.
        key_hash: Option<KeyHash>,
        /// First ask the provider how it goes on, if that is open.
        #[serde(default)]
        refresh: bool,
    },
    /// Show how an order stands and what is known of its links, to its owner; the provider is asked first if that is open.
    Order {
        /// Who asks.
        owner: Owner,
    },
    /// A link to the order is made.
    MakeLink {
        /// The revision that the shop gives it.
        revision: Option<u32>,
        /// A digest of what it sells.
        content: String,
        /// Of the request, if it has one.
        #[serde(default)]
        key: Option<KeyHash>,
        /// Whose it is: the first links of an account's orders are limited. Edges of the release before do not say it.
        #[serde(default)]
        owner: Option<Owner>,
    },
    /// No link that was made so far can be paid any more.
    EndLinks,
    /// The same, asked for under a key. Objects of the release before know the one without.
    EndLinksOnce {
        /// Of the request.
        key: KeyHash,
    },
    /// Where the operation of a key runs that was bound here.
    Locate {
        /// Who asks.
        owner: Owner,
        /// Which key.
        key_hash: KeyHash,
    },
    /// Drop a finished key's response before its time.
    Forget {
        /// Who asks.
        owner: Owner,
        /// Which key.
        key_hash: KeyHash,
    },
    /// A job is done, or lies in the dead letters: forget it. Only consumers of the release before say so.
    JobDone {
        /// Which job.
        job_id: String,
        /// The newest audit record that a projection has carried.
        audit_through: Option<u64>,
    },
    /// Take in what a provider tells.
    Event(Box<Event>),
    /// Do all that is due, as the alarm does, and set that anew.
    Wake,
    /// Send the read model a snapshot, whether or not something has changed.
    Project,
    /// Show an operator all that happened here. Only the desk asks this: there is no owner's check.
    Inspect,
    /// Take up now what waits here. The answer is whether anything was ever written here.
    Resume,
    /// The same, and ask the provider about all that only it knows.
    Settle,
    /// Show an operator a call, and what its provider shows of it now.
    ShowCall {
        /// Its number.
        call_id: u32,
    },
    /// An operator says how a call ended.
    SettleByHand(Box<ByHandAsk>),
    /// Send nothing more of a call for a while: an operator finds out what became of it.
    Hold {
        /// Its number.
        call_id: u32,
    },
    /// Drop all personal data.
    Erase,
    /// Somebody has come back from the bank's page: ask the provider, and say where to go.
    Return,
}

impl ObjectRequest {
    /// Its name in traces.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Run(_) => "run",
            Self::Bind { .. } => "bind",
            Self::Show { .. } => "show",
            Self::Order { .. } => "order",
            Self::MakeLink { .. } => "make_link",
            Self::EndLinks | Self::EndLinksOnce { .. } => "end_links",
            Self::Locate { .. } => "locate",
            Self::Forget { .. } => "forget",
            Self::JobDone { .. } => "job_done",
            Self::Event(_) => "event",
            Self::Wake => "wake",
            Self::Project => "project",
            Self::Inspect => "inspect",
            Self::Resume => "resume",
            Self::Settle => "settle",
            Self::ShowCall { .. } => "show_call",
            Self::SettleByHand(_) => "settle_by_hand",
            Self::Hold { .. } => "hold",
            Self::Erase => "erase",
            Self::Return => "return",
        }
    }
}

/// What the object answers to [`ObjectRequest::Locate`]: the object, as hexadecimal digits.
pub type Located = Option<String>;

/// What the object answers to [`ObjectRequest::Inspect`]: `None` where nothing is.
pub type Inspected = Option<Inspection>;

/// What the object answers to [`ObjectRequest::ShowCall`]: `None` where there is no such call.
pub type ShownCall = Option<CallReport>;

/// What an operator says of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "said")]
pub enum Said {
    /// It was not executed.
    NotExecuted,
    /// It was executed.
    Executed {
        /// The provider's id of what it made or moved.
        id: String,
        /// It did what was asked for, else it was refused. Counts only where the provider cannot be asked.
        is_done: bool,
    },
}

/// An operator settles a call by hand.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ByHandAsk {
    /// Which call.
    pub call_id: u32,
    /// How often it had been sent when the operator looked.
    pub sends: u32,
    /// How it ended.
    pub said: Said,
    /// It is settled; else it is only said whether it would be.
    pub is_final: bool,
    /// The button's number.
    pub button: u64,
    /// Who says so.
    pub operator: String,
    /// Why.
    pub reason: String,
}

/// What the object answers to [`ObjectRequest::SettleByHand`] and [`ObjectRequest::Hold`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "answer")]
pub enum ByHandAnswer {
    /// It is settled.
    Settled {
        /// As what: `charged`, `not executed` …
        how: String,
    },
    /// It would be settled.
    Would {
        /// As what.
        how: String,
    },
    /// Nothing more is sent until then.
    Held {
        /// In ms since the epoch.
        until_ms: u64,
    },
    /// Nothing was changed.
    Refused {
        /// Why.
        detail: String,
    },
}

/// A call whose outcome nobody knows, for an operator.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CallReport {
    /// The call.
    pub call: CallView,
    /// How much it moves, in minor units.
    pub amount_minor: Option<u64>,
    /// In which currency.
    pub currency: String,
    /// By what a person finds it on the provider's own pages.
    pub reference: Option<String>,
    /// The provider has said that it executed it.
    pub is_executed: bool,
    /// Until when nobody believes that it was not executed, in ms since the epoch.
    pub quarantined_until_ms: Option<u64>,
    /// Until when the last send may still arrive, in ms since the epoch.
    pub may_arrive_until_ms: Option<u64>,
    /// How it ended, if it was settled meanwhile.
    pub ended: Option<String>,
    /// Its capture has failed, and its provider tries no more to make it again.
    #[serde(default)]
    pub is_given_up: bool,
    /// Its provider has taken it over, and told nothing of it for so long that a person says how it ended.
    #[serde(default)]
    pub is_untold: bool,
    /// Why it cannot be settled now.
    pub refusal: Option<String>,
    /// What came of its last sends and look-ups, the newest last.
    pub lines: Vec<TimelineEntry>,
    /// What the provider shows now; not asked for a call that is settled.
    pub shown: Option<ProviderSnapshot>,
}

/// What a provider shows of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProviderSnapshot {
    /// In words.
    pub text: String,
    /// Its id of what the call has made.
    pub id: Option<String>,
    /// The call was executed, as it seems.
    pub is_found: bool,
    /// It could not be asked, or did not say.
    #[serde(default)]
    pub is_silent: bool,
}

/// What the object answers to [`ObjectRequest::Return`]: `None` without a payment that leads anywhere.
pub type Returned = Option<WayOn>;

/// Where a person goes who has come back from the bank's page, and what the shop is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WayOn {
    /// The payment's return address.
    pub return_url: String,
    /// What was to be paid, in minor units.
    pub amount_minor: u64,
    /// In which currency.
    pub currency: Currency,
}

/// What the object answers to [`ObjectRequest::Bind`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BindResult {
    /// It runs there: the object, as hexadecimal digits.
    To(String),
    /// The same. The key was bound now, and that was counted against the account's rate.
    Counted(String),
    /// The key stands for another request.
    Mismatch {
        /// The fields that differ.
        fields: Vec<String>,
    },
    /// Too many new operations: nothing was written.
    RateLimited,
}

/// A request to run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Execute {
    /// The request.
    #[serde(rename = "arrival")]
    pub command: Command,
    /// How long a duplicate waits for the first one's result, in ms.
    pub wait_ms: u64,
    /// A failure that was asked for (demo only).
    pub fault: Option<Fault>,
    /// It was counted against the account's rate already, as its key was bound.
    #[serde(default)]
    pub is_counted: bool,
}

/// A failure on request, to show what a retry does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// An error inside the flow, after the payment is reserved.
    Error,
    /// The whole WebAssembly instance traps there.
    Crash,
    /// It traps when the provider has answered, before that is written down: the worst moment.
    CrashAfterCall,
}

impl Fault {
    /// Where the first two strike.
    pub const AT: [RecoveryPoint; 1] = [RecoveryPoint::At(Point::Reserved)];
}

/// What the object answers to [`ObjectRequest::Run`].
pub type ExecuteResult = once::execute::ExecuteResult<Refusal>;

/// What the object answers to [`ObjectRequest::Show`]: `None` for a stranger, and where nothing is.
pub type Shown = Option<View>;

/// What the object answers to [`ObjectRequest::Order`].
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct OrderView {
    /// The newest try to pay it.
    pub view: Option<View>,
    /// What is known of its links.
    pub links: Option<OrderLinks>,
}

/// A key and what it made.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct View {
    /// The payment, once it is created.
    #[serde(default)]
    pub payment: Option<Payment>,
    /// Its refunds, oldest first.
    #[serde(default)]
    pub refunds: Vec<Refund>,
    /// Its tries, oldest first.
    #[serde(default)]
    pub tries: Vec<Try>,
    /// The customer, if it is a customer's object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub customer: Option<Customer>,
    /// The key.
    pub key: KeyView,
    /// The parameters, while they are kept: a form is shown again with them.
    pub parameters: Option<Canonical>,
    /// When an order whose last try has failed may be tried again.
    #[serde(default)]
    pub next_try: NextTry,
}

/// A key's status, as clients see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyStatus {
    /// Under way.
    Processing,
    /// Ended, the response is replayed.
    Complete,
    /// The provider has not said whether it charged; it is being found out.
    Unknown,
    /// Ended, the response is gone.
    Expired,
}

impl KeyStatus {
    /// Whether nothing more will happen.
    pub const fn is_over(self) -> bool {
        matches!(self, Self::Complete | Self::Expired)
    }
}

/// A key, as its owner sees it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct KeyView {
    /// Where it stands.
    pub status: KeyStatus,
    /// How far it came.
    pub recovery_point: RecoveryPoint,
    /// The request's fingerprint.
    pub request_hash: String,
    /// How many runs it took.
    pub attempts: u32,
    /// In ms since the epoch.
    pub created_at_ms: u64,
    /// When the response is dropped, in ms since the epoch; not known before the end.
    pub expires_at_ms: Option<u64>,
    /// The stored status.
    pub response_code: Option<u16>,
    /// What happened when.
    pub timeline: Vec<TimelineEntry>,
}

impl KeyView {
    /// From a record, with the timeline of the whole object, as it stands at `now_ms` (since the epoch): a response
    /// has expired at its time, also if the alarm that drops it is late.
    pub fn of(state: &ObjectState, key: &KeyRecord, timeline: Vec<TimelineEntry>, now_ms: u64) -> Self {
        let in_doubt = state.unsettled_call(key.key_id).is_some_and(|call| call.in_doubt());
        let (status, response_code, expires_at_ms) = match &key.lifecycle {
            // While a run works on it a call in doubt is still processing; in doubt while nobody works on it, its outcome is unknown.
            Lifecycle::Open(open) if in_doubt && open.lease.is_none() => (KeyStatus::Unknown, None, None),
            Lifecycle::Open(_) => (KeyStatus::Processing, None, None),
            Lifecycle::Finished(f) if now_ms >= f.expires_at_ms => {
                (KeyStatus::Expired, Some(f.response.status), Some(f.expires_at_ms))
            }
            Lifecycle::Finished(f) => (KeyStatus::Complete, Some(f.response.status), Some(f.expires_at_ms)),
            Lifecycle::Expired(t) => (KeyStatus::Expired, Some(t.status), Some(t.expires_at_ms)),
        };
        Self {
            status,
            recovery_point: key.recovery_point(),
            request_hash: key.fingerprint.0.clone(),
            attempts: key.attempt,
            created_at_ms: key.created_at_ms,
            expires_at_ms,
            response_code,
            timeline: timeline.into_iter().filter(|entry| entry.key_id == key.key_id).collect(),
        }
    }
}
