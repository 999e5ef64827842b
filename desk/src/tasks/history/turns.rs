//! All places take turns: a batch of one, then of the next. One that fails holds up no other.

use std::collections::{BTreeMap, VecDeque};

use worker::{Error, Result};

use super::steps::{Bounds, Done, Files, Place, Tables, step};

/// How many steps one place has in a run: a batch takes two, with some twenty queries.
const STEPS_MAX: usize = 24;
/// How many all places have together: an invocation may make 10,000 requests, and the other tasks are part of it.
const ALL_STEPS_MAX: usize = 96;
/// How many steps are a turn.
const TURN: usize = 2;

/// What a run has done.
#[derive(Debug, Default)]
pub(super) struct Run<'a> {
    pub(super) done: Done,
    /// Which places failed, and why.
    pub(super) failed: BTreeMap<&'a str, Error>,
    /// Those in which nothing old enough was found, as positions.
    pub(super) empty: Vec<usize>,
}

/// What D1 is called beside the shards.
pub(super) const D1: &str = "D1";

/// Lets leave what is due, until nothing is, or the run is over. It begins with the place that `chance` says: so none is always the last one, for
/// which nothing is left.
pub(super) async fn run<'a, T: Tables>(
    places: &[Place<'a, T>],
    chance: u64,
    files: &impl Files,
    bounds: Bounds,
    is_over: impl Fn() -> bool,
) -> Run<'a> {
    let mut run = Run::default();
    let mut all = 0;
    let mut waiting: VecDeque<(usize, usize)> = (0..places.len()).map(|place| (place, 0)).collect();
    let number = u64::try_from(places.len()).unwrap_or(u64::MAX);
    waiting.rotate_left(usize::try_from(chance.checked_rem(number).unwrap_or(0)).unwrap_or(0));
    while let Some((position, mut steps)) = waiting.pop_front() {
        let Some(place) = places.get(position) else { continue };
        let mut is_through = false;
        for _ in 0..TURN {
            if all >= ALL_STEPS_MAX || is_over() {
                return run;
            }
            (all, steps) = (all + 1, steps + 1);
            match step(place, files, bounds).await {
                Ok(done) => {
                    run.done.add(&done);
                    is_through = done.is_through;
                    if done.is_empty {
                        run.empty.push(position);
                    }
                }
                Err(error) => {
                    run.failed.insert(place.name().unwrap_or(D1), error);
                    is_through = true;
                }
            }
            if is_through {
                break;
            }
        }
        if !is_through && steps < STEPS_MAX {
            waiting.push_back((position, steps));
        }
    }
    run
}

impl Run<'_> {
    /// What D1 alone says, where there is nothing else.
    pub(super) fn or_error(mut self, places: usize) -> Result<Self> {
        match self.failed.pop_first() {
            Some((_, error)) if places == 1 => Err(error),
            Some((place, error)) => {
                self.failed.insert(place, error);
                Ok(self)
            }
            None => Ok(self),
        }
    }
}
