//! Which histories are played.

use std::cell::RefCell;
use std::collections::BTreeSet;

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
    /// How often in them a person had to say how a call ended.
    pub settled_by_hand: u64,
}

impl Played {
    fn count(&mut self, history: &History) {
        self.histories += 1;
        self.faults += history.faults;
        self.settled_by_hand += history.settled_by_hand;
    }

    const fn and(self, other: Self) -> Self {
        Self {
            histories: self.histories + other.histories,
            faults: self.faults + other.faults,
            settled_by_hand: self.settled_by_hand + other.settled_by_hand,
        }
    }
}

/// Beside the scenario's own.
const ANOTHER_OBJECT: ObjectId = ObjectId::from_bytes([8; 32]);

/// What leaves an object in all histories that were played: the keys under which its calls went out, and the ids of its jobs.
#[derive(Default)]
struct Names {
    its: BTreeSet<String>,
    /// Those of another object.
    others: BTreeSet<String>,
}

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
        played.count(&self.play(plan, &RefCell::default())?);
        Ok(played)
    }

    /// Plays each fault at each place, one at a time; first of all none. Twice: with each step as a commit, and [in turns](Plan::in_turns).
    pub fn every_single_fault(&self) -> Result<Played, Box<Violation>> {
        self.each_from_the_start(&RefCell::default(), &mut |_, _| Ok(()))
    }

    /// Plays each pair of faults, and before it the first of them alone.
    pub fn every_pair(&self) -> Result<Played, Box<Violation>> {
        let (mut pairs, names) = (Played::default(), RefCell::default());
        let singles = self.each_from_the_start(&names, &mut |first, history| {
            self.each_after(first, history, &names, &mut |_, history| {
                pairs.count(history);
                Ok(())
            })
        })?;
        Ok(singles.and(pairs))
    }

    /// Plays histories with faults at random places, from this seed on.
    pub fn random(&self, histories: u64, seed: u64) -> Result<Played, Box<Violation>> {
        let (mut played, names) = (Played::default(), RefCell::default());
        for number in 0..histories {
            played.count(&self.play(Plan::random(seed.wrapping_add(number)), &names)?);
        }
        Ok(played)
    }

    fn each_from_the_start(
        &self,
        names: &RefCell<Names>,
        then: &mut Then<'_>,
    ) -> Result<Played, Box<Violation>> {
        let mut played = Played::default();
        for quiet in [Plan::quiet(), Plan::quiet().in_turns()] {
            let bare = self.play(quiet.clone(), names)?;
            played.count(&bare);
            self.each_after(&quiet, &bare, names, &mut |plan, history| {
                played.count(history);
                then(plan, history)
            })?;
        }
        Ok(played)
    }

    /// Plays a plan, whose own history is `bare`, with each further fault behind its last one.
    fn each_after(
        &self,
        plan: &Plan,
        bare: &History,
        names: &RefCell<Names>,
        then: &mut Then<'_>,
    ) -> Result<(), Box<Violation>> {
        for (place, site) in bare.sites.iter().enumerate().skip(plan.next_place()) {
            for fault in site.faults() {
                let with = plan.with(place, *fault);
                let history = self.play(with.clone(), names)?;
                then(&with, &history)?;
            }
        }
        Ok(())
    }

    fn play(&self, plan: Plan, names: &RefCell<Names>) -> Result<History, Box<Violation>> {
        let history = world::play(self.scenario, self.saboteur, plan.clone(), self.scenario.object())?;
        self.names_are_its_own(plan, &history, &mut names.borrow_mut())?;
        Ok(history)
    }

    /// Two objects share a provider and a queue: no key and no id of a job may be the other one's. A history with a name that none before it had
    /// is played in another object, too.
    fn names_are_its_own(
        &self,
        plan: Plan,
        history: &History,
        names: &mut Names,
    ) -> Result<(), Box<Violation>> {
        if !self.scenario.names_have_the_object() || history.names.is_subset(&names.its) {
            return Ok(());
        }
        names.its.extend(history.names.iter().cloned());
        let other = world::play(self.scenario, self.saboteur, plan.clone(), ANOTHER_OBJECT)?;
        names.others.extend(other.names);
        match names.its.intersection(&names.others).next() {
            None => Ok(()),
            Some(name) => Err(Box::new(Violation {
                what: format!("two objects use the same key at a provider, or the same id of a job: {name}"),
                plan,
                history: Vec::new(),
            })),
        }
    }
}
