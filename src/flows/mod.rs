//! The flows: what each operation does, from its first phase to its response. Pure, one file each, top to bottom.
//!
//! A flow is called again and again with the rows as they are; it looks at its recovery point, does one phase, and
//! says how the phase ended ([`End`]). What it changed in the rows is committed together with that end, or not at all.

pub mod ride;

use serde::{Deserialize, Serialize};

use crate::machine::call::{CallSpec, Settlement};
use crate::machine::context::{Bug, Context};
use crate::machine::id::ObjectId;
use crate::machine::record::{Channel, KeyRecord, RecoveryPoint, StoredResponse};
use crate::machine::rows::{AuditRecord, Rows, StagedJob};

/// What a request asks for, parsed and complete: a run can be resumed from this and the rows alone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Operation {
    /// `POST /rides`
    Ride(ride::RideRequest),
}

impl Operation {
    /// Its name in logs and timelines.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Ride(_) => "ride",
        }
    }

    /// The address of what it makes, known before it exists.
    pub fn resource_path(&self, object: ObjectId) -> String {
        match self {
            Self::Ride(_) => crate::machine::id::RideId::in_object(object).path(),
        }
    }
}

/// How a phase ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// This much is done for good.
    RecoveryPoint(RecoveryPoint),
    /// Something is to be done elsewhere first: the call is frozen with this phase.
    Call(CallSpec),
    /// The operation is over.
    Response(StoredResponse),
}

/// A phase at work: the rows, and on whose behalf.
pub struct Phase<'a> {
    pub(crate) rows: &'a mut Rows,
    pub(crate) key_id: u32,
    pub(crate) ctx: &'a Context,
}

impl Phase<'_> {
    fn key(&self) -> Result<&KeyRecord, Bug> {
        self.rows.key(self.key_id).ok_or_else(|| Bug(format!("no key {}", self.key_id)))
    }

    fn channel(&self) -> Result<Channel, Bug> {
        Ok(self.key()?.channel)
    }

    /// How the call of this name ended; `None` if it was not made yet.
    fn settlement(&self, name: &str) -> Result<Option<Settlement>, Bug> {
        use crate::machine::call::CallState;
        match self.rows.call(self.key_id, name).map(|call| &call.state) {
            None => Ok(None),
            Some(CallState::Settled(settlement)) => Ok(Some(settlement.clone())),
            Some(other) => Err(Bug(format!("a phase ran while call {name} was {}", other.name()))),
        }
    }

    fn audit(&mut self, action: &'static str, subject: String, data: serde_json::Value) -> Result<(), Bug> {
        let actor = self.key()?.owner.clone();
        let record = AuditRecord { at_ms: self.ctx.now_ms, actor, action, subject, data };
        self.rows.appended.audit.push(record);
        Ok(())
    }

    fn stage(&mut self, kind: &'static str, job_id: String, payload: serde_json::Value) {
        self.rows.appended.jobs.push(StagedJob { job_id, kind, payload, staged_at_ms: self.ctx.now_ms });
    }
}

/// Runs the next phase of an operation.
pub fn run(operation: &Operation, phase: &mut Phase<'_>) -> Result<End, Bug> {
    match operation {
        Operation::Ride(request) => ride::run(request, phase),
    }
}
