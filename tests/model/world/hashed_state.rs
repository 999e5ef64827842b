//! The object's state within a state of the world. A checker hashes every one that it meets, and fewer steps change the object: it carries its hash.

use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use ahash::RandomState;
use payments::engine::ObjectState;

/// What is committed, shared between the states in which it is the same.
#[derive(Clone, Debug)]
pub struct HashedState(Arc<Hashed>);

#[derive(Clone, Debug)]
struct Hashed {
    hash: OnceLock<u64>,
    state: ObjectState,
}

impl HashedState {
    pub fn new(state: ObjectState) -> Self {
        Self(Arc::new(Hashed { hash: OnceLock::new(), state }))
    }

    /// To be changed: it is hashed anew after that.
    pub fn make_mut(&mut self) -> &mut ObjectState {
        let hashed = Arc::make_mut(&mut self.0);
        hashed.hash = OnceLock::new();
        &mut hashed.state
    }

    /// Whether neither was changed since they were the same one.
    pub fn is_same_as(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// By the checker's own kind of hash, which takes a fifth of what the standard library's does here. The seeds stay: so do the numbers of states.
pub fn hash_of(value: &impl Hash) -> u64 {
    RandomState::with_seeds(1, 2, 3, 4).hash_one(value)
}

impl Deref for HashedState {
    type Target = ObjectState;

    fn deref(&self) -> &ObjectState {
        &self.0.state
    }
}

impl Hash for HashedState {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let Hashed { hash, state } = &*self.0;
        hash.get_or_init(|| hash_of(state)).hash(hasher);
    }
}

impl PartialEq for HashedState {
    fn eq(&self, other: &Self) -> bool {
        self.is_same_as(other) || self.0.state == other.0.state
    }
}

impl Eq for HashedState {}
