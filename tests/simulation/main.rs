//! The simulation: whole histories of [`payments`], decided by one number, with every kind of fault, and judged by an auditor that shares
//! no code with the core.
//!
//! ```text
//! cargo test --test simulation                                            everything
//! THOROUGH=1 cargo test --test simulation                                 several times as many histories, and more pairs of faults
//! ```
//!
//! Read on in this order: faults.rs (what can go wrong), payments/ (the world), invariants.rs (what must hold of every key), history.rs,
//! schedule.rs, store.rs and tables.rs (what is committed is read back), campaign.rs, report.rs.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod beside;
mod campaign;
mod disk;
mod faults;
mod history;
mod invariants;
mod old_objects;
mod old_tables;
mod payments;
mod report;
mod rng;
#[path = "../saboteur/mod.rs"]
mod saboteur;
mod schedule;
mod store;
mod tables;

/// Most of the time of a history went into what it allocates, and what SQLite does: with the system's allocator it takes half as much again.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
