//! The Durable Object: one for each key. It keeps the lock, the rows and the stored response, and makes the foreign
//! calls. A thin shell: it loads, lets the machine decide, stores, and carries bytes.

mod by_hand;
mod drive;
pub mod events;
mod execute;
mod host;
mod inspect;
mod key_object;
pub mod log;
pub mod old_tables;
mod outbox;
mod traces;
