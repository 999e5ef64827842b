//! What can go wrong, and where: every effect of a history is a boundary, and at each boundary a fault can strike.
//!
//! The bounds that the protocol assumes, and that this model therefore keeps:
//!
//! - A clock differs from the provider's by at most [`SKEW_MAX_MS`]; two incarnations then differ by twice that.
//! - A send reaches the provider, and what it starts there shows in the list, within [`arrival_max_ms`] of its start.
//!   That is less than `quiet_ms` by the difference of two clocks: the sender's, and that of whoever later believes
//!   "it is not there".
//! - A pause may fall between any two transactions, never between the commit that arms a send and the send.
//! - The provider keeps a key for 24 h or longer, counted from its first use.

use once::context::Times;

use crate::rng::Rng;

pub(crate) const SECOND: u64 = 1000;
pub(crate) const MINUTE: u64 = 60 * SECOND;
pub(crate) const HOUR: u64 = 60 * MINUTE;

/// How far a clock may be from the provider's.
pub(crate) const SKEW_MAX_MS: u64 = 5 * MINUTE;

/// How long before its time an alarm can ring.
pub(crate) const ALARM_LEAD_MS: u64 = SECOND;

/// How long after its start a send may still become visible at the provider.
pub(crate) fn arrival_max_ms() -> u64 {
    Times::default().quiet_ms - 2 * SKEW_MAX_MS
}

/// How long after a 500 of its own the provider may still complete the work. That is less than the quarantine by the
/// difference of two clocks.
const ROLLED_FORWARD_MAX_MS: u64 = 60 * HOUR;

/// A place where a fault can strike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Boundary {
    /// A transaction of the object is about to run.
    Transaction,
    /// A request goes to the provider.
    Send,
    /// A page of the provider's list is asked for.
    Page,
    /// The alarm is about to ring.
    Alarm,
    /// A client's request is on its way.
    Request,
    /// An answer to a client is on its way.
    Answer,
}

/// What the provider does instead of charging and saying so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Oddity {
    /// Charges, then fails: a 500 that is stored.
    ChargedThen500,
    /// Fails before it charges: a 500 that is stored.
    Uncharged500,
    /// The same, and says not to try again.
    Uncharged500Final,
    /// 503 at the door: not executed, not stored.
    Unavailable,
    /// 429 at the door.
    RateLimited { retry_after_ms: u64 },
    /// 401 at the door.
    Unauthorized,
    /// A validation 400 that is not stored: the account or the customer is unusable for the moment.
    Invalid,
    /// A 400 that says to try again: not executed, not stored.
    Hiccup,
    /// 402, stored.
    Declined,
    /// 200 and `processing`; it ends later.
    Processing { ms: u64, charged: bool },
    /// Charges; the answer is mangled on its way.
    Garbled,
    /// Fails while it charges: a 500 that is stored, and nothing to be seen. Hours later it completes the work.
    RolledForward { ms: u64 },
    /// Charges. The answer, which is stored, names another amount, and for hours no list shows our metadata.
    OtherAmount { ms: u64 },
    /// Leaves the payment open at the bank's page, and says no address. Hours later somebody completes it all the same.
    LeftOpen { ms: u64 },
}

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The incarnation dies before or after the commit; then nothing reaches the object for a while.
    Crash { committed: bool, dark_ms: u64 },
    /// The incarnation stands still. If it is replaced, it comes back as a stale one.
    Pause { replaced: bool, ms: u64 },
    /// The run is cancelled (its client hung up); the incarnation lives on.
    RunDropped,
    /// The clock is set.
    Clock { ahead_ms: i64 },

    /// Never arrives.
    RequestLost,
    /// Is executed; nobody hears of it.
    ResponseLost,
    /// Arrives after this time.
    Late { ms: u64 },
    /// Is executed for this long.
    Slow { ms: u64 },
    /// Arrives twice.
    Duplicated { gap_ms: u64 },
    /// Arrives twice: the first is executed unheard, the second is answered 429.
    DuplicatedRefused,
    /// The provider does something else.
    Odd(Oddity),

    /// No answer.
    PageLost,
    /// A 500.
    PageError,
    /// A 400: the entry that it was to begin after is not known.
    PageRefused,
    /// An answer that cannot be read.
    PageGarbled,

    /// Rings [`ALARM_LEAD_MS`] before its time.
    AlarmEarly,
    /// Rings later.
    AlarmLate { ms: u64 },
    /// Rings twice.
    AlarmTwice,
    /// Never rings; the sweep finds the object after this time.
    AlarmLost { sweep_ms: u64 },

    /// The client's request never arrives.
    AskLost,
    /// The client's request arrives twice.
    AskDoubled,
    /// The client never gets the answer.
    AnswerLost,
}

const TRANSACTION: &[Fault] = &[
    Fault::Crash { committed: false, dark_ms: 0 },
    Fault::Crash { committed: true, dark_ms: 0 },
    Fault::Crash { committed: false, dark_ms: 25 * HOUR },
    Fault::Crash { committed: true, dark_ms: 25 * HOUR },
    Fault::Crash { committed: true, dark_ms: 23 * HOUR - MINUTE },
    Fault::Pause { replaced: true, ms: 3 * MINUTE },
    Fault::Pause { replaced: true, ms: 25 * HOUR },
    Fault::Pause { replaced: false, ms: 3 * MINUTE },
    Fault::Pause { replaced: false, ms: 25 * HOUR },
    Fault::RunDropped,
    Fault::Clock { ahead_ms: 300_000 },
    Fault::Clock { ahead_ms: -300_000 },
];

const SEND: &[Fault] = &[
    Fault::RequestLost,
    Fault::ResponseLost,
    Fault::Late { ms: MINUTE },
    Fault::Late { ms: HOUR }, // as late as the model allows
    Fault::Slow { ms: 2 * MINUTE },
    Fault::Duplicated { gap_ms: 5 * SECOND },
    Fault::DuplicatedRefused,
    Fault::Odd(Oddity::ChargedThen500),
    Fault::Odd(Oddity::Uncharged500),
    Fault::Odd(Oddity::Uncharged500Final),
    Fault::Odd(Oddity::Unavailable),
    Fault::Odd(Oddity::RateLimited { retry_after_ms: 2 * SECOND }),
    Fault::Odd(Oddity::RateLimited { retry_after_ms: 2 * HOUR }),
    Fault::Odd(Oddity::Unauthorized),
    Fault::Odd(Oddity::Invalid),
    Fault::Odd(Oddity::Hiccup),
    Fault::Odd(Oddity::Declined),
    Fault::Odd(Oddity::Processing { ms: 2 * HOUR, charged: true }),
    Fault::Odd(Oddity::Processing { ms: 2 * HOUR, charged: false }),
    Fault::Odd(Oddity::Garbled),
    Fault::Odd(Oddity::RolledForward { ms: 5 * HOUR }),
    Fault::Odd(Oddity::OtherAmount { ms: 30 * HOUR }),
    Fault::Odd(Oddity::LeftOpen { ms: 2 * HOUR }),
];

const PAGE: &[Fault] = &[Fault::PageLost, Fault::PageError, Fault::PageRefused, Fault::PageGarbled];

const ALARM: &[Fault] = &[
    Fault::AlarmLate { ms: 10 * MINUTE },
    Fault::AlarmEarly,
    Fault::AlarmTwice,
    Fault::AlarmLost { sweep_ms: 15 * MINUTE },
    Fault::AlarmLost { sweep_ms: 25 * HOUR },
];

/// Every fault that can strike at a boundary.
pub(crate) const fn catalogue(boundary: Boundary) -> &'static [Fault] {
    match boundary {
        Boundary::Transaction => TRANSACTION,
        Boundary::Send => SEND,
        Boundary::Page => PAGE,
        Boundary::Alarm => ALARM,
        Boundary::Request => &[Fault::AskLost, Fault::AskDoubled],
        Boundary::Answer => &[Fault::AnswerLost],
    }
}

impl Fault {
    /// The same fault with another duration, near the limits of the protocol more often than elsewhere.
    fn varied(self, rng: &mut Rng) -> Self {
        match self {
            Self::Crash { committed, dark_ms } if dark_ms > 0 => {
                Self::Crash { committed, dark_ms: long(rng) }
            }
            Self::Pause { replaced, ms } if ms > HOUR => Self::Pause { replaced, ms: long(rng) },
            Self::Pause { replaced, .. } => Self::Pause { replaced, ms: rng.between(SECOND, 12 * MINUTE) },
            Self::Clock { .. } => Self::Clock { ahead_ms: skew(rng) },
            Self::Late { .. } => Self::Late { ms: rng.between(SECOND, arrival_max_ms()) },
            Self::Slow { .. } => Self::Slow { ms: rng.between(SECOND, arrival_max_ms() - SECOND) },
            Self::Duplicated { .. } => Self::Duplicated { gap_ms: rng.between(1, arrival_max_ms() - SECOND) },
            Self::AlarmLate { .. } => Self::AlarmLate { ms: rng.between(SECOND, HOUR) },
            Self::AlarmLost { sweep_ms } if sweep_ms > HOUR => Self::AlarmLost { sweep_ms: long(rng) },
            Self::Odd(Oddity::Processing { charged, .. }) => {
                Self::Odd(Oddity::Processing { charged, ms: rng.between(SECOND, 30 * HOUR) })
            }
            Self::Odd(Oddity::RolledForward { .. }) => {
                Self::Odd(Oddity::RolledForward { ms: rng.between(MINUTE, ROLLED_FORWARD_MAX_MS) })
            }
            Self::Odd(Oddity::OtherAmount { .. }) => {
                Self::Odd(Oddity::OtherAmount { ms: rng.between(MINUTE, ROLLED_FORWARD_MAX_MS) })
            }
            Self::Odd(Oddity::LeftOpen { .. }) => {
                Self::Odd(Oddity::LeftOpen { ms: rng.between(10 * MINUTE, 30 * HOUR) })
            }
            same => same,
        }
    }

    /// Whether it makes "it is not there" worth nothing for days: the provider fails by itself, or the window may close before
    /// its answer is heard.
    pub(crate) const fn quarantines(self) -> bool {
        use Oddity::{ChargedThen500, RolledForward, Uncharged500, Uncharged500Final};
        match self {
            Self::Odd(ChargedThen500 | Uncharged500 | Uncharged500Final | RolledForward { .. }) => true,
            Self::Crash { dark_ms: ms, .. } | Self::Pause { ms, .. } | Self::AlarmLost { sweep_ms: ms } => {
                ms > 12 * MINUTE
            }
            _ => false,
        }
    }

    /// How long it takes effect.
    pub(crate) fn lasts_ms(self) -> u64 {
        match self {
            Self::Crash { dark_ms: ms, .. }
            | Self::Pause { ms, .. }
            | Self::Slow { ms }
            | Self::Duplicated { gap_ms: ms }
            | Self::AlarmLate { ms }
            | Self::AlarmLost { sweep_ms: ms }
            | Self::Odd(
                Oddity::Processing { ms, .. }
                | Oddity::RolledForward { ms }
                | Oddity::OtherAmount { ms }
                | Oddity::LeftOpen { ms },
            ) => ms,
            Self::Late { ms } => ms.min(arrival_max_ms()),
            Self::Odd(Oddity::RateLimited { retry_after_ms }) => retry_after_ms.min(HOUR),
            _ => 0,
        }
    }
}

/// A copy of a send on its way to the provider.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Copy {
    /// When it arrives, in ms from now.
    pub(crate) delay_ms: u64,
    /// How long its execution takes.
    pub(crate) takes_ms: u64,
    /// Whether its answer finds the way back.
    pub(crate) heard: bool,
    /// What the provider does instead of what is asked for.
    pub(crate) odd: Option<Oddity>,
}

/// The copies of a send that reach the provider under a fault.
pub(crate) fn copies(fault: Option<Fault>, transit_ms: u64, takes_ms: u64) -> Vec<Copy> {
    let copy = Copy { delay_ms: transit_ms, takes_ms, heard: true, odd: None };
    match fault {
        Some(Fault::RequestLost) => vec![],
        Some(Fault::ResponseLost) => vec![Copy { heard: false, ..copy }],
        Some(Fault::Late { ms }) => vec![Copy { delay_ms: ms.min(arrival_max_ms() - takes_ms), ..copy }],
        Some(Fault::Slow { ms }) => vec![Copy { takes_ms: ms, ..copy }],
        Some(Fault::Duplicated { gap_ms }) => {
            vec![copy, Copy { delay_ms: transit_ms + gap_ms, heard: false, ..copy }]
        }
        Some(Fault::DuplicatedRefused) => {
            let odd = Some(Oddity::RateLimited { retry_after_ms: 1000 });
            vec![Copy { heard: false, ..copy }, Copy { delay_ms: transit_ms + 1, odd, ..copy }]
        }
        Some(Fault::Odd(odd)) => vec![Copy { odd: Some(odd), ..copy }],
        _ => vec![copy],
    }
}

/// What is counted for a fault of a send.
pub(crate) const fn send_counter(fault: Option<Fault>) -> Option<&'static str> {
    match fault {
        Some(Fault::Late { .. }) => Some("sends that arrive late"),
        Some(Fault::Duplicated { .. } | Fault::DuplicatedRefused) => Some("sends that arrive twice"),
        _ => None,
    }
}

/// Hours, often right at one of the protocol's limits.
fn long(rng: &mut Rng) -> u64 {
    let limit = rng.pick(&[20 * MINUTE, HOUR, 23 * HOUR, 24 * HOUR]);
    limit - 15 * MINUTE + rng.between(0, 30 * MINUTE)
}

/// How far ahead a clock is: often as far as it can be.
pub(crate) fn skew(rng: &mut Rng) -> i64 {
    let most = SKEW_MAX_MS as i64;
    match rng.between(0, 4) {
        0 | 1 => 0,
        2 => most,
        3 => -most,
        _ => rng.between(0, 2 * SKEW_MAX_MS) as i64 - most,
    }
}

/// Which faults strike.
#[derive(Clone, Debug)]
pub(crate) enum Plan {
    /// At the boundary of this number, the fault of that number in its catalogue.
    Exactly(Vec<(usize, usize)>),
    /// At the so-many-th boundary of a kind, from 0.
    Listed(Vec<(Boundary, usize, Fault)>),
    /// With this chance at each boundary, up to so many, as long as time is below the limit.
    Random { permille: u64, budget: u32, until_ms: u64 },
}

/// The plan at work.
pub(crate) struct Faults {
    plan: Plan,
    /// The boundaries passed so far.
    pub(crate) passed: Vec<Boundary>,
}

impl Faults {
    pub(crate) const fn new(plan: Plan) -> Self {
        Self { plan, passed: Vec::new() }
    }

    /// The fault that strikes at this boundary, if one does.
    pub(crate) fn at(&mut self, boundary: Boundary, elapsed_ms: u64, rng: &mut Rng) -> Option<Fault> {
        let number = self.passed.len();
        self.passed.push(boundary);
        match &mut self.plan {
            Plan::Exactly(list) => {
                let (_, fault) = list.iter().find(|(at, _)| *at == number)?;
                catalogue(boundary).get(*fault).copied()
            }
            Plan::Listed(list) => {
                let before = self.passed.iter().filter(|passed| **passed == boundary).count() - 1;
                let (_, _, fault) = list.iter().find(|(kind, at, _)| (*kind, *at) == (boundary, before))?;
                Some(*fault)
            }
            Plan::Random { permille, budget, until_ms } => {
                // Money moves at the sends and the look-ups: faults strike there more often.
                let chance = match boundary {
                    Boundary::Send | Boundary::Page => *permille * 3,
                    Boundary::Transaction | Boundary::Alarm => *permille,
                    Boundary::Request | Boundary::Answer => *permille / 3,
                };
                if *budget == 0 || elapsed_ms > *until_ms || !rng.permille(chance) {
                    return None;
                }
                *budget -= 1;
                Some(rng.pick(catalogue(boundary)).varied(rng))
            }
        }
    }
}
