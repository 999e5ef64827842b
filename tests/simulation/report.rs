//! What a campaign exercised, and how a failing history is replayed.

use std::collections::BTreeMap;
use std::fmt;

use crate::invariants::Violation;

/// How often each thing happened.
#[derive(Clone, Default)]
pub(crate) struct Counters(BTreeMap<&'static str, u64>);

impl Counters {
    pub(crate) fn count(&mut self, what: &'static str) {
        self.add(what, 1);
    }

    pub(crate) fn add(&mut self, what: &'static str, times: u64) {
        *self.0.entry(what).or_default() += times;
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (what, times) in &other.0 {
            self.add(what, *times);
        }
    }

    pub(crate) fn of(&self, what: &str) -> u64 {
        self.0.get(what).copied().unwrap_or(0)
    }

    /// What of this never happened.
    pub(crate) fn missing<'a>(&self, expected: &[&'a str]) -> Vec<&'a str> {
        expected.iter().copied().filter(|what| self.of(what) == 0).collect()
    }
}

impl fmt::Display for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (what, times) in &self.0 {
            writeln!(f, "  {times:>10}  {what}")?;
        }
        Ok(())
    }
}

/// Which history of which world: enough to run it again, exactly.
#[derive(Clone, Debug)]
pub(crate) enum Name {
    /// The random history of a seed.
    Seed(&'static str, u64),
    /// A scenario with faults at these boundaries, each by its number in the boundary's catalogue.
    Scenario(&'static str, &'static str, Vec<(usize, usize)>),
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Seed(world, seed) => write!(f, "{world}_SEED={seed}"),
            Self::Scenario(world, scenario, faults) => {
                write!(f, "{world}_SCENARIO={scenario}")?;
                faults.iter().try_for_each(|(at, fault)| write!(f, ",{at}:{fault}"))
            }
        }
    }
}

impl Name {
    /// The history that the environment asks for.
    pub(crate) fn from_env(world: &'static str, scenarios: &[&'static str]) -> Option<Self> {
        if let Ok(seed) = std::env::var(format!("{world}_SEED")) {
            return Some(Self::Seed(world, seed.parse().expect("the seed is a number")));
        }
        let text = std::env::var(format!("{world}_SCENARIO")).ok()?;
        let mut parts = text.split(',');
        let name = parts.next()?;
        let scenario =
            scenarios.iter().find(|scenario| **scenario == name).expect("it begins with a scenario's name");
        let fault = |part: &str| {
            let (at, fault) = part.split_once(':')?;
            Some((at.parse().ok()?, fault.parse().ok()?))
        };
        Some(Self::Scenario(
            world,
            scenario,
            parts.map(|part| fault(part).expect("boundary:fault")).collect(),
        ))
    }

    /// The failure, and the one line that shows it again.
    pub(crate) fn failure(&self, violation: &Violation) -> String {
        format!(
            "invariant {}\n  seen: {}\n  replay: {self} cargo test --test simulation replay -- --nocapture",
            violation.invariant, violation.seen
        )
    }
}
