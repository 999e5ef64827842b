//! What operations are about, as types that whoever uses the machine puts in: a [`Domain`], and where its calls go, a [`Provider`].

use std::fmt::Debug;
use std::hash::Hash;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::account::Credential;
use super::request::FrozenRequest;
use super::times::Times;

/// What can be kept in rows and compared.
pub trait Data: Clone + Debug + PartialEq + Eq + Hash {}

impl<T: Clone + Debug + PartialEq + Eq + Hash> Data for T {}

/// What can be written down, too.
pub trait Stored: Data + Serialize + DeserializeOwned {}

impl<T: Data + Serialize + DeserializeOwned> Stored for T {}

/// What the operations of a Worker are about, as types. A unit struct implements it.
pub trait Domain: Copy + Debug + Default + Eq + Hash + 'static {
    /// What a request asks for, parsed and complete: a run can be resumed from this and the rows alone.
    type Operation: Stored;
    /// The flow's half of an object's state.
    type Resource: Stored + Default;
    /// How far an operation has come.
    type Point: Point;
    /// Where calls go.
    type Provider: Provider;
    /// What a definitive answer of a provider means.
    type Answer: Answer;
    /// Why the state of things does not admit an operation.
    type Refusal: Data;
    /// A kind of job.
    type JobKind: Copy + Stored;
    /// What a phase writes down beside the state and never reads again, such as audit records: as JSON an object of lists, to which each
    /// commit adds.
    type Facts: Data + Default + Serialize;
    /// What is configured for the flow.
    type Settings: Settings<Self::Provider>;

    /// The most that an operation adds to its object's text whatever its parameters are, in bytes of JSON: its key, its calls with the answers that they
    /// keep, and the response. One for which there is no room does not begin; one that adds more may find no room for its end.
    const ANSWERS_BYTES: usize = 16 << 10;
}

/// The points of a flow, in the order in which they are reached.
pub trait Point: Copy + Debug + Ord + Hash {
    /// The name as stored and shown.
    fn as_str(self) -> &'static str;

    /// From the stored name.
    fn parse(text: &str) -> Option<Self>;
}

/// The points of a flow that has none of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NoPoint {}

impl Point for NoPoint {
    fn as_str(self) -> &'static str {
        match self {}
    }

    fn parse(_: &str) -> Option<Self> {
        None
    }
}

/// Where calls go.
pub trait Provider: Copy + Stored {
    /// What a call asks for.
    type Kind: Copy + Stored;

    /// How long after the first send, in ms, the same key may be sent again: well below what the provider keeps. 0 for a provider that keeps no keys and
    /// can be asked: a call goes out once, [by its key](super::call::RetryPolicy::IdempotentByKey), and is looked up from then on, also after it was refused
    /// for now.
    fn window_ms(self, times: &Times) -> u64;

    /// Whether it can be asked what became of a call. Else only its answers tell, and what it tells by itself.
    fn answers_questions(self) -> bool;

    /// The provider's id of what a call moves, where that is seen only with a credential of the account that made it.
    fn moves(self, _kind: Self::Kind, _request: &FrozenRequest) -> Option<String> {
        None
    }

    /// Whether it must be asked for the id of an account, to know later whether a call was sent there. `made` is its id of what the
    /// call has made.
    fn tells_account(self, _kind: Self::Kind, _request: &FrozenRequest, _made: Option<&str>) -> bool {
        false
    }
}

/// What a call of a flow asks for.
pub type CallKind<D> = <<D as Domain>::Provider as Provider>::Kind;

/// What a definitive answer means.
pub trait Answer: Stored {
    /// One word for it.
    fn name(&self) -> &'static str;

    /// Whether the provider refuses the request itself. It need not have stored such an answer under the key.
    fn is_refusal(&self) -> bool;

    /// The provider's id of what the call has made, as far as the answer says one.
    fn made(&self) -> Option<&str> {
        None
    }

    /// Empties what it has of the provider's own words, which may quote the request: that goes with the request's body, once no response is made
    /// of it any more.
    fn forget_text(&mut self) {}
}

/// What is configured for a flow.
pub trait Settings<P>: Copy + Debug + Eq + Hash {
    /// The credential with which a request for this account is sent to a provider. `None` where nothing is known of it.
    fn credential(&self, _provider: P, _account: Option<&str>) -> Option<Credential> {
        None
    }
}

impl<P> Settings<P> for () {}
