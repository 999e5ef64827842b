//! Which fault happens where. A place is a number: the first opportunity of a history for a fault is 0, the next is 1.

use std::fmt;

use crate::fault::{Fault, Site};

/// The chance of an outage: one of so many.
const OUTAGE_ONE_OF: u64 = 8;

/// The faults of a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The place of each, and which it is; by place.
    faults: Vec<(usize, Fault)>,
    /// Beside these, at random places.
    seed: Option<u64>,
    /// Whether what a run does up to the next thing to wait for is one commit, or each step is one.
    in_turns: bool,
}

impl Plan {
    /// Nothing goes wrong, and each step is a commit of its own.
    pub const fn quiet() -> Self {
        Self { faults: Vec::new(), seed: None, in_turns: false }
    }

    /// Faults at random places; the same seed is the same history. Half of them are [in turns](Self::in_turns).
    pub const fn random(seed: u64) -> Self {
        Self { faults: Vec::new(), seed: Some(seed), in_turns: mix(!seed).is_multiple_of(2) }
    }

    /// The same with [turns](once::run::Run::turn): what a run does up to the next thing to wait for is one commit.
    #[must_use]
    pub const fn in_turns(mut self) -> Self {
        self.in_turns = true;
        self
    }

    pub(crate) const fn is_in_turns(&self) -> bool {
        self.in_turns
    }

    /// The same with one fault more.
    #[must_use]
    pub fn with(&self, place: usize, fault: Fault) -> Self {
        let mut plan = self.clone();
        plan.faults.push((place, fault));
        plan
    }

    /// The first place behind all its faults.
    pub(crate) fn next_place(&self) -> usize {
        self.faults.iter().map(|(place, _)| place + 1).max().unwrap_or(0)
    }

    /// What goes wrong at a place.
    pub(crate) fn fault_at(&self, place: usize, site: Site) -> Option<Fault> {
        if let Some((_, fault)) = self.faults.iter().find(|(planned, _)| *planned == place) {
            return Some(*fault);
        }
        let seed = self.seed?;
        let rng = mix(seed ^ mix(place as u64));
        // Some histories have many faults, most have a few.
        let often = [40, 15, 6, 4][(mix(seed) % 4) as usize];
        let faults = site.faults();
        let fault = *faults.get((mix(rng) % faults.len() as u64) as usize)?;
        // An outage takes a thousand commits: there are few.
        let is_rare = fault.is_outage() && !mix(!rng).is_multiple_of(OUTAGE_ONE_OF);
        (rng.is_multiple_of(often) && !is_rare).then_some(fault)
    }
}

/// As it is written in Rust.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.seed {
            Some(seed) => write!(f, "Plan::random({seed})")?,
            None => write!(f, "Plan::quiet()")?,
        }
        let by_dice = self.seed.is_some_and(|seed| Self::random(seed).in_turns);
        if self.in_turns && !by_dice {
            write!(f, ".in_turns()")?;
        }
        self.faults.iter().try_for_each(|(place, fault)| write!(f, ".with({place}, Fault::{fault:?})"))
    }
}

/// SplitMix64's finaliser: spreads the bits of a number. <https://prng.di.unimi.it/splitmix64.c>
const fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
