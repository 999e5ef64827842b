//! What can go wrong, and where.

/// What can go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// The incarnation dies before the commit: what it has changed is gone.
    CrashBeforeCommit,
    /// The incarnation dies right after the commit.
    CrashAfterCommit,
    /// The run goes on only when its lease has run out.
    Stall,
    /// A step fails when it has changed rows. In a turn it is the second one; else its run is abandoned.
    StepFails,
    /// The clock of an incarnation is minutes ahead, from its beginning.
    ClockAhead,
    /// The clock of an incarnation is minutes behind, from its beginning.
    ClockBehind,
    /// From this commit on the clock of the incarnation is minutes behind.
    ClockBack,
    /// What is sent never arrives, and the call times out.
    RequestLost,
    /// What is sent is executed, and the answer never arrives.
    AnswerLost,
    /// What is sent arrives long after the call has timed out.
    RequestLate,
    /// What is sent arrives twice, if the provider keeps its key.
    RequestTwice,
    /// The provider refuses this copy before it executes anything, as by a rate limit.
    Limited,
    /// The same, and another copy of the send arrives long after it, if the provider looks at its key.
    LimitedOnce,
    /// The provider says that nothing has arrived under the key yet, and does not execute this.
    KeyUnused,
    /// The provider refuses the request, and does not keep that answer under the key: see [`Scenario::refuse`](crate::Scenario::refuse).
    Refused,
    /// The provider fails while it executes, which it then has.
    FailsExecuting,
    /// The provider fails while it executes, and completes that hours later.
    CompletesLater,
    /// The same, and its answer is lost.
    CompletesLaterUnheard,
    /// From here on nothing arrives at the provider, until its window is over.
    Unreachable,
    /// From here on the provider executes what arrives and answers nothing, until its window is over.
    Silent,
    /// From here on the provider refuses our credentials, until its window is over.
    Locked,
    /// The incarnation dies while the call is under way.
    CrashWhileCalling,
    /// The look-up brings no answer.
    LookUpFails,
    /// The answer of the look-up arrives just before its call would time out.
    LookUpSlow,
    /// The look-up does not show what was executed in the last minutes.
    LookUpLags,
    /// The look-up has another page.
    LookUpPaged,
    /// The client gives up and never comes back.
    ClientGone,
    /// The queue takes no job.
    QueueFails,
    /// The queue has the jobs, and the incarnation dies before it has written that down.
    CrashAfterQueue,
    /// The word that a job is done gets lost.
    ConfirmLost,
}

/// A kind of place, by what can go wrong there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Site {
    /// An incarnation begins.
    Start,
    Commit,
    /// The commit of a request, and perhaps of the first turn of its run.
    Begin,
    /// The commit of a run.
    Turn,
    Send,
    /// A send of what the provider may refuse without keeping that.
    RefusableSend,
    LookUp,
    Client,
    Queue,
    Confirm,
}

impl Fault {
    /// Whether the provider is away with it for longer than its window.
    pub(crate) const fn is_outage(self) -> bool {
        matches!(self, Self::Unreachable | Self::Silent | Self::Locked)
    }
}

impl Site {
    pub(crate) fn faults(self) -> &'static [Fault] {
        match self {
            Self::Start => &[Fault::ClockAhead, Fault::ClockBehind],
            Self::Turn => TURN,
            Self::Begin => but(1, TURN),
            Self::Commit => but(2, TURN),
            Self::Send => but(1, SEND),
            Self::RefusableSend => SEND,
            Self::LookUp => &[Fault::LookUpFails, Fault::LookUpSlow, Fault::LookUpLags, Fault::LookUpPaged],
            Self::Client => &[Fault::ClientGone],
            Self::Queue => &[Fault::QueueFails, Fault::CrashAfterQueue],
            Self::Confirm => &[Fault::ConfirmLost],
        }
    }
}

/// At the commit of a run; without the first one where it begins, without two at any other commit.
const TURN: &[Fault] =
    &[Fault::StepFails, Fault::Stall, Fault::CrashBeforeCommit, Fault::CrashAfterCommit, Fault::ClockBack];
/// At the send of what may be refused; without the first one at any other.
const SEND: &[Fault] = &[
    Fault::Refused,
    Fault::RequestLost,
    Fault::AnswerLost,
    Fault::RequestLate,
    Fault::RequestTwice,
    Fault::Limited,
    Fault::LimitedOnce,
    Fault::KeyUnused,
    Fault::FailsExecuting,
    Fault::CompletesLater,
    Fault::CompletesLaterUnheard,
    Fault::Unreachable,
    Fault::Silent,
    Fault::Locked,
    Fault::CrashWhileCalling,
];

fn but(first: usize, faults: &'static [Fault]) -> &'static [Fault] {
    faults.get(first..).unwrap_or_default()
}

/// What a copy of a send meets at the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meets {
    /// It is executed.
    Execution,
    /// The provider fails, and completes it later.
    Failure,
    /// The provider does what it has failed with.
    Completion,
    /// It is refused, and that is not kept.
    Refusal,
    /// The provider says that the key is unused.
    KeyUnused,
}

/// The provider is away.
#[derive(Clone, Copy)]
pub(crate) struct Outage {
    /// In which way.
    pub(crate) how: Fault,
    /// Until when, in ms.
    pub(crate) until_ms: u64,
    /// At how many places something else can go wrong yet.
    pub(crate) places_left: usize,
}
