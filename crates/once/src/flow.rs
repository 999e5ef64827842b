//! What the operations of a [`Domain`] do: a [`Flow`], which is asked whether one may begin and then runs it, phase by phase.
//!
//! A flow is a unit struct and its functions have no `self`: a run that is resumed by another release, or in another
//! incarnation, depends on nothing but the rows and the [`Context`].

use super::call::{CallSpec, CallState, ProviderCall, Settlement};
use super::context::{Bug, Context};
use super::domain::Domain;
use super::object_state::ObjectState;
use super::record::{KeyRecord, StoredResponse};

/// What operations do.
pub trait Flow: Domain {
    /// Its name in logs and timelines.
    fn name(operation: &Self::Operation) -> &'static str;

    /// Whether a new key may begin its operation, and how far that has brought it. Reserves what the operation needs. On a
    /// refusal, or an error, nothing is committed.
    fn admit(operation: &Self::Operation, phase: &mut Phase<'_, Self>) -> Result<Admission<Self>, Bug>;

    /// Runs the next phase of an operation. What it changes is committed together with how it ends, or not at all.
    ///
    /// A phase that ends in [`End::Call`] is committed, too, and runs again from its top once the call is settled: what it changes before it asks for the
    /// [`settlement`](Phase::settlement) it changes twice. So it asks first. And a call is known by its name alone: a later release that gives it another
    /// one, or asks for its phases in another order, makes it again.
    fn run(operation: &Self::Operation, phase: &mut Phase<'_, Self>) -> Result<End<Self>, Bug>;

    /// Whether only releases before have begun such an operation. Its key stays as it is: nothing is run or sent for it any more.
    fn is_retired(_operation: &Self::Operation) -> bool {
        false
    }

    /// Why an object does not take a new key.
    fn limit_reached(limit: ObjectLimit) -> Self::Refusal;

    /// Whether a call that was never sent has lost its point: what it moves has changed since it was admitted. It is settled as not executed. Of a
    /// call that was sent this is not asked.
    fn is_overtaken(_call: &ProviderCall<Self>, _rows: &ObjectState<Self>) -> bool {
        false
    }

    /// How long after a response has expired its key is forgotten ([`forget_expired`](ObjectState::forget_expired)), in ms: the alarm comes for it. `None`
    /// where keys are kept for good. A flow that forgets them in [`on_alarm`](Self::on_alarm) alone has no alarm for it.
    fn forgets_after_ms(_ctx: &Context<Self::Settings>) -> Option<u64> {
        None
    }

    /// When the flow itself has something to do although nobody calls, in ms since the epoch.
    fn due_at_ms(_rows: &ObjectState<Self>, _ctx: &Context<Self::Settings>) -> Option<u64> {
        None
    }

    /// A transaction is about to be committed that makes `after` of `before`: adds what goes with it.
    fn on_commit(
        _before: &ObjectState<Self>,
        _after: &mut ObjectState<Self>,
        _ctx: &Context<Self::Settings>,
    ) {
    }

    /// Refuses a resource that cannot be: it is neither written nor read.
    fn verify(_rows: &ObjectState<Self>) -> Result<(), Bug> {
        Ok(())
    }

    /// Whether a provider is to be asked something soon.
    fn is_awaiting(_rows: &ObjectState<Self>) -> bool {
        false
    }

    /// The alarm has come: does what is due.
    fn on_alarm(_rows: &mut ObjectState<Self>, _ctx: &Context<Self::Settings>) {}
}

/// How much an object may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectLimit {
    /// This many keys.
    Keys(u32),
    /// As much text as fits into one row. What has ended leaves room when its response expires.
    Bytes,
    /// What cannot be read again: the request's JSON is nested too deep, most often. It will be refused at each repetition.
    Unreadable,
}

/// Whether an operation may begin: the point to which what it has reserved brings it, if to any; or why not.
pub type Admission<F> = Result<Option<<F as Domain>::Point>, <F as Domain>::Refusal>;

/// How a phase ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End<F: Domain> {
    /// This much is done for good.
    At(F::Point),
    /// Something is to be done elsewhere first: the call is frozen with this phase, which runs again from its top when it is settled.
    Call(CallSpec<F>),
    /// The operation is over.
    Response(StoredResponse),
}

/// A phase at work: the rows, and on whose behalf.
pub struct Phase<'a, F: Domain> {
    /// The rows of the object.
    pub object_state: &'a mut ObjectState<F>,
    /// The key whose operation it is.
    pub key_id: u32,
    /// When, and with which configuration.
    pub ctx: &'a Context<F::Settings>,
    /// The operator who asked on the owner's behalf. Known only as the operation is admitted.
    pub by: Option<&'a str>,
}

impl<F: Domain> Phase<'_, F> {
    /// The record of its key.
    pub fn key(&self) -> Result<&KeyRecord<F>, Bug> {
        self.object_state.key(self.key_id).ok_or_else(|| Bug(format!("no key {}", self.key_id)))
    }

    /// How the call of this name ended; `None` if it was not made yet.
    pub fn settlement(&self, name: &str) -> Result<Option<Settlement<F::Answer>>, Bug> {
        match self.object_state.call_named(self.key_id, name).map(|call| &call.state) {
            None => Ok(None),
            Some(CallState::Settled(settlement)) => Ok(Some(settlement.clone())),
            Some(other) => Err(Bug(format!("a phase ran while call {name} was {}", other.name()))),
        }
    }
}
