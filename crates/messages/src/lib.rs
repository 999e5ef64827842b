//! What the Workers say to each other: messages to and from an object, its snapshots for the read model, the jobs of the queue, the
//! inbox of webhooks, and the files that an operator sends. While a deploy rolls out, an old Worker may speak to a new one.

pub mod account;
pub mod credentials;
pub mod event;
pub mod gate;
pub mod inbox;
pub mod inspection;
pub mod job;
pub mod lookup;
pub mod message;
pub mod operations;
pub mod placement;
pub mod queue;
pub mod recall;
pub mod settlement;
pub mod snapshot;
pub mod source;
