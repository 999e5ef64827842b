//! The engine of [`once`] on a Durable Object.
//!
//! - [`store`]: the state of an object as one row of SQLite, and a row of its timeline for each commit.
//! - [`storage`]: what that needs of a database, so that it runs on the host, too.
//! - `runtime`, for wasm32 only: the same by the Workers runtime.

#[cfg(target_arch = "wasm32")]
pub mod runtime;
pub mod storage;
pub mod store;
