//! Which histories are played.

use once::id::ObjectId;

use crate::plan::Plan;
use crate::saboteur::Saboteur;
use crate::scenario::{Scenario, Violation};
use crate::world::{self, History};

/// What was played without a violation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Played {
    /// How many histories.
    pub histories: u64,
    /// How many faults in them.
    pub faults: u64,
}

impl Played {
    fn count(&mut self, history: &History) {
        self.histories += 1;
        self.faults += history.faults;
    }
}

/// Beside the scenario's own.
const ANOTHER_OBJECT: ObjectId = ObjectId::from_bytes([8; 32]);

/// What is done with each plan that was played.
type Then<'a> = dyn FnMut(&Plan, &History) -> Result<(), Box<Violation>> + 'a;

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
        let mut played = Played::default();
        played.count(&self.play(plan)?);
        Ok(played)
    }

    /// Plays each fault at each place, one at a time; first of all none. Twice: with each step as a commit, and [in turns](Plan::in_turns).
    pub fn every_single_fault(&self) -> Result<Played, Box<Violation>> {
        self.each_from_the_start(&mut |_, _| Ok(()))
    }

    /// Plays each pair of faults, and before it the first of them alone.
    pub fn every_pair(&self) -> Result<Played, Box<Violation>> {
        let mut pairs = Played::default();
        let singles = self.each_from_the_start(&mut |first, history| {
            self.each_after(first, history, &mut |_, history| {
                pairs.count(history);
                Ok(())
            })
        })?;
        Ok(Played { histories: singles.histories + pairs.histories, faults: singles.faults + pairs.faults })
    }

    /// Plays histories with faults at random places, from this seed on.
    pub fn random(&self, histories: u64, seed: u64) -> Result<Played, Box<Violation>> {
        self.keys_are_its_own()?;
        let mut played = Played::default();
        for number in 0..histories {
            played.count(&self.play(Plan::random(seed.wrapping_add(number)))?);
        }
        Ok(played)
    }

    fn each_from_the_start(&self, then: &mut Then<'_>) -> Result<Played, Box<Violation>> {
        self.keys_are_its_own()?;
        let mut played = Played::default();
        for quiet in [Plan::quiet(), Plan::quiet().in_turns()] {
            let bare = self.play(quiet.clone())?;
            played.count(&bare);
            self.each_after(&quiet, &bare, &mut |plan, history| {
                played.count(history);
                then(plan, history)
            })?;
        }
        Ok(played)
    }

    /// Plays a plan, whose own history is `bare`, with each further fault behind its last one.
    fn each_after(&self, plan: &Plan, bare: &History, then: &mut Then<'_>) -> Result<(), Box<Violation>> {
        for (place, site) in bare.sites.iter().enumerate().skip(plan.next_place()) {
            for fault in site.faults() {
                let with = plan.with(place, *fault);
                let history = self.play(with.clone())?;
                then(&with, &history)?;
            }
        }
        Ok(())
    }

    /// Two objects share a provider and a queue: no key and no id of a job may be the other one's.
    fn keys_are_its_own(&self) -> Result<(), Box<Violation>> {
        if !self.scenario.names_have_the_object() {
            return Ok(());
        }
        let [one, other] = [self.scenario.object(), ANOTHER_OBJECT]
            .map(|object| world::play(self.scenario, None, Plan::quiet(), object));
        let (one, other) = (one?, other?);
        match one.names.intersection(&other.names).next() {
            None => Ok(()),
            Some(name) => Err(Box::new(Violation {
                what: format!("two objects use the same key at a provider, or the same id of a job: {name}"),
                plan: Plan::quiet(),
                history: Vec::new(),
            })),
        }
    }

    fn play(&self, plan: Plan) -> Result<History, Box<Violation>> {
        world::play(self.scenario, self.saboteur, plan, self.scenario.object())
    }
}
