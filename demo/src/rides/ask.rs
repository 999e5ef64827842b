//! What a ride's object is asked, and what it answers.

use once::begin::Command;
use once::fingerprint::Canonical;
use once::id::Owner;
use once::key::KeyHash;
use once::object_state::ObjectState;
use once::record::{KeyRecord, Lifecycle};
use serde::{Deserialize, Serialize};

use super::flow::Rides;
use super::ride::Ride;

/// What it is asked.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ObjectRequest {
    /// Book a ride under a key, or answer from what that did.
    Run {
        /// The request.
        command: Box<Command<Rides>>,
        /// How long it waits, in ms.
        wait_ms: u64,
    },
    /// Show the ride to its owner.
    Show {
        /// Who asks.
        owner: Owner,
        /// Under which key; any, if it is not said.
        key_hash: Option<KeyHash>,
    },
}

impl runtime::objects::Question for ObjectRequest {}

/// What the object answers to [`ObjectRequest::Run`].
pub type ExecuteResult = once::execute::ExecuteResult<String>;

/// What the object answers to [`ObjectRequest::Show`]: `None` for a stranger, and where nothing is.
pub type Shown = Option<View>;

/// A ride, as its owner sees it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct View {
    /// The ride, once it is created.
    pub ride: Option<Ride>,
    /// What was entered, while it is kept: a form is shown again with it.
    pub parameters: Option<Canonical>,
    /// When it was asked for, in ms since the epoch.
    pub since_ms: u64,
    /// Nothing more will happen.
    pub is_over: bool,
    /// It may have been charged, and nobody is asking at the moment.
    pub in_doubt: bool,
}

impl View {
    /// What is shown of the rows.
    pub fn of(state: &ObjectState<Rides>, owner: &Owner, key_hash: Option<&KeyHash>) -> Shown {
        let wanted = |key: &&KeyRecord<Rides>| key_hash.is_none_or(|hash| key.key_hash == *hash);
        let key = state.keys.iter().rfind(wanted).filter(|key| key.owner == *owner)?;
        let is_waiting = matches!(&key.lifecycle, Lifecycle::Open(open) if open.lease.is_none());
        let in_doubt = state.unsettled_call(key.key_id).is_some_and(|call| call.in_doubt());
        Some(Self {
            ride: state.resource.clone(),
            parameters: key.parameters.clone(),
            since_ms: key.created_at_ms,
            is_over: !matches!(key.lifecycle, Lifecycle::Open(_)),
            in_doubt: in_doubt && is_waiting,
        })
    }
}
