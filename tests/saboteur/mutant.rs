//! The deliberate defects: each is the core with one protection missing.

/// A deliberate defect, for the tests that show that the tests can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Mutant {
    /// Every send carries a provider key of its own.
    FreshProviderKey,
    /// Nothing is checked right before the send or when the outcome is written.
    NoLeaseCheck,
    /// A run that ends in an error takes its claim with it.
    ReleaseKeyOnError,
    /// A time-out is stored as a final failure.
    FailAfterTimeout,
    /// Nothing wakes an unfinished key.
    NoAlarm,
    /// The provider's key window is ignored.
    IgnoreWindow,
    /// A look-up that finds nothing is believed at once.
    NoQuietPeriod,
    /// That a call is in no list is believed although the provider failed while it executed it.
    AbsenceIsFinal,
    /// What the provider says that it has made is forgotten if the answer is not believed.
    DisbelievedIsAbsent,
    /// A payment that is found before its execution has ended is taken for a declined one.
    TentativeIsFinal,
    /// One look that finds nothing is enough.
    OneLook,
    /// A call that was refused with certainty stays unknown where the provider has nothing to ask.
    RefusedIsUnknown,
    /// A refusal that says nothing of a send's other copies is taken for one of them all.
    CopyIsSend,
    /// That a key is unused is final although an earlier send is still on its way.
    UnusedIsFinal,
    /// A reservation that is found captured or given up by others is not taken for what was asked for.
    MovedIsOther,
    /// What a provider leaves open at the bank's page, though nobody goes there, is taken for a declined payment.
    OpenIsDeclined,
    /// Another payload under a used key gets the stored response.
    NoFingerprint,
    /// A tombstone is taken for a fresh key.
    ForgetTombstone,
    /// What a refund would give back is not reserved: it counts only once the provider has answered.
    NoRefundReservation,
    /// A capture and a void of the same payment are accepted while the other one is under way.
    MovesOverlap,
    /// A payment whose outcome is unknown is taken for a failed one, and goes on to the other provider.
    FallbackAfterUnknown,
    /// A capture, a void or a refund whose outcome is unknown is taken for a failed one.
    ForgetUnknownMove,
    /// Another try to pay an order is accepted whatever became of the last one.
    OrderPaidAgain,
    /// Another try begins while the last one, which was declined, can still be confirmed at the provider.
    NoCloseBeforeTry,
    /// Another try begins beside the money of an earlier one that is not given back.
    BesideLateMoney,
    /// An amount goes to every provider in our own minor units.
    OwnMinorUnits,
    /// A capture or a void that the provider has only received counts as done.
    ReceivedIsDone,
    /// What seems decided is never asked for again.
    DecidedIsFinal,
    /// A refund is sent while a bank decides about a dispute of the same money.
    RefundWhileDisputed,
    /// News of a try that is over is dropped.
    LateNewsDropped,
    /// A later "no" is the last word of a payment that its provider has executed without saying how.
    HeldIsRefused,
    /// What was reserved is sent although the payment has moved before its first send.
    OvertakenIsSent,
    /// A call goes on with whatever credential is configured, also where that is another account's.
    AccountNotFrozen,
    /// An operator's "not executed" is taken while a send is on its way.
    ByHandInFlight,
    /// What a provider tells against an operator's word is dropped.
    ByHandBelieved,
}

impl Mutant {
    /// The mutants of the machine: the simulation runs them all and must catch each.
    pub(crate) const OF_THE_MACHINE: [Self; 13] = [
        Self::FreshProviderKey,
        Self::NoLeaseCheck,
        Self::ReleaseKeyOnError,
        Self::FailAfterTimeout,
        Self::NoAlarm,
        Self::IgnoreWindow,
        Self::NoQuietPeriod,
        Self::AbsenceIsFinal,
        Self::DisbelievedIsAbsent,
        Self::TentativeIsFinal,
        Self::OpenIsDeclined,
        Self::NoFingerprint,
        Self::ForgetTombstone,
    ];

    /// Those of payments: their simulation must catch each, and its told stories are enough for it.
    pub(crate) const OF_PAYMENTS: [Self; 8] = [
        Self::NoRefundReservation,
        Self::MovesOverlap,
        Self::FallbackAfterUnknown,
        Self::ForgetUnknownMove,
        Self::OrderPaidAgain,
        Self::NoCloseBeforeTry,
        Self::OwnMinorUnits,
        Self::ReceivedIsDone,
    ];

    /// Those of a provider whose lists lag behind: a told history has it.
    pub(crate) const OF_LISTS: [Self; 1] = [Self::OneLook];

    /// Those of what a provider does by itself, days later, and of a secret that is changed: only random histories have it.
    pub(crate) const OF_LATER: [Self; 6] = [
        Self::DecidedIsFinal,
        Self::LateNewsDropped,
        Self::HeldIsRefused,
        Self::MovedIsOther,
        Self::AccountNotFrozen,
        Self::RefundWhileDisputed,
    ];

    /// Those of what operators do: only random histories with an operator have it.
    pub(crate) const OF_OPERATORS: [Self; 1] = [Self::ByHandInFlight];
}
