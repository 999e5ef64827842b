//! The shell: the Worker's entry, the Durable Object that holds everything, its database, and what sends the webhooks.

mod entry;
mod object;
mod sql;
mod webhook_sender;
