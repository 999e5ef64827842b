//! The read model in D1: what lists, the operator's desk and the sweeps read. It follows the objects, which are the truth.
//!
//! An object sends a [`snapshot`](messages::snapshot) of itself whenever something has changed that is shown here, under a version that only
//! grows; `project` writes it where no newer one is. So messages may come late, twice, or not at
//! all: the next one mends it. No money is ever decided from here.

#[cfg(test)]
pub(crate) mod for_tests;
pub mod home;
pub mod list;
pub mod payments;
pub mod project;
pub(crate) mod together;
