//! The engine of [`once`] on a Durable Object.
//!
//! - `object`, for wasm32 only: an object at work, which runs operations, joins duplicates, wakes by its alarm and hands on jobs; and its
//!   `Host`, the Worker's part, which is yours to write.
//! - [`execute`]: a request, and what comes of it.
//! - [`store`]: the state of an object as one row of SQLite, and a row of its timeline for each commit.
//! - [`storage`]: what that needs of a database, so that it runs on the host, too.
//! - `runtime`, for wasm32 only: the same by the Workers runtime.

/// The JavaScript that stands around the WebAssembly of a Worker with such objects, as a module: write it beside your `entry.mjs`.
pub const GUARD: &str = include_str!("../guard.mjs");

#[cfg(target_arch = "wasm32")]
pub mod alarm;
#[cfg(target_arch = "wasm32")]
mod drive;
pub mod execute;
#[cfg(target_arch = "wasm32")]
pub mod object;
#[cfg(target_arch = "wasm32")]
mod outbox;
#[cfg(target_arch = "wasm32")]
pub mod runtime;
pub mod storage;
pub mod store;
