//! Which histories are played.

use crate::plan::Plan;
use crate::saboteur::Saboteur;
use crate::scenario::{Scenario, Violation};
use crate::world;

/// What was played without a violation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Played {
    /// How many histories.
    pub histories: u64,
    /// How many faults in them.
    pub faults: u64,
}

/// Plays a scenario.
#[derive(Clone, Copy, Debug)]
pub struct Harness<'a, S> {
    scenario: &'a S,
    saboteur: Option<Saboteur>,
}

impl<'a, S: Scenario> Harness<'a, S> {
    /// A harness that changes nothing.
    pub const fn new(scenario: &'a S) -> Self {
        Self { scenario, saboteur: None }
    }

    /// The control: the same, where a protection is off. Some history must then break a promise.
    #[must_use]
    pub const fn without(self, protection: Saboteur) -> Self {
        Self { saboteur: Some(protection), ..self }
    }

    /// Plays one history.
    pub fn replay(&self, plan: Plan) -> Result<Played, Box<Violation>> {
        let history = world::play(self.scenario, self.saboteur, plan)?;
        Ok(Played { histories: 1, faults: history.faults })
    }

    /// Plays each fault at each place, one at a time; first of all none.
    pub fn every_single_fault(&self) -> Result<Played, Box<Violation>> {
        self.each_after(&Plan::quiet(), &mut |_| Ok(()))
    }

    /// Plays each pair of faults.
    pub fn every_pair(&self) -> Result<Played, Box<Violation>> {
        let mut pairs = Played::default();
        let singles = self.each_after(&Plan::quiet(), &mut |first| {
            let played = self.each_after(first, &mut |_| Ok(()))?;
            pairs.histories += played.histories.saturating_sub(1);
            pairs.faults += played.faults;
            Ok(())
        })?;
        Ok(Played { histories: singles.histories + pairs.histories, faults: singles.faults + pairs.faults })
    }

    /// Plays histories with faults at random places, from this seed on.
    pub fn random(&self, histories: u64, seed: u64) -> Result<Played, Box<Violation>> {
        let mut played = Played::default();
        for number in 0..histories {
            let history = world::play(self.scenario, self.saboteur, Plan::random(seed.wrapping_add(number)))?;
            played.histories += 1;
            played.faults += history.faults;
        }
        Ok(played)
    }

    /// Plays a plan as it is, then with each further fault behind its last one.
    fn each_after(
        &self,
        plan: &Plan,
        then: &mut dyn FnMut(&Plan) -> Result<(), Box<Violation>>,
    ) -> Result<Played, Box<Violation>> {
        let bare = world::play(self.scenario, self.saboteur, plan.clone())?;
        let mut played = Played { histories: 1, faults: bare.faults };
        for (place, site) in bare.sites.iter().enumerate().skip(plan.next_place()) {
            for fault in site.faults() {
                let with = plan.with(place, *fault);
                let history = world::play(self.scenario, self.saboteur, with.clone())?;
                played.histories += 1;
                played.faults += history.faults;
                then(&with)?;
            }
        }
        Ok(played)
    }
}
