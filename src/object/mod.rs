//! The Durable Object: one for each key. It keeps the lock, the rows and the stored response, and makes the foreign
//! calls. A thin shell: it loads, lets the machine decide, stores, and carries bytes.

#[cfg(target_arch = "wasm32")]
mod by_hand;
#[cfg(target_arch = "wasm32")]
mod drive;
pub mod events;
#[cfg(target_arch = "wasm32")]
mod execute;
#[cfg(target_arch = "wasm32")]
mod host;
#[cfg(target_arch = "wasm32")]
mod inspect;
#[cfg(target_arch = "wasm32")]
mod key_object;
pub mod log;
pub mod old_tables;
#[cfg(target_arch = "wasm32")]
mod outbox;
