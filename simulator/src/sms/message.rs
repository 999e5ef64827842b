//! A text message that was sent.

use serde::{Deserialize, Serialize};

use crate::store::Kind;

/// The kind of a text message.
pub const MESSAGE: Kind = Kind("message");

/// A message that was sent.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Message {
    /// `msg_…`
    pub id: String,
    /// A telephone number, as in `+14155550100`.
    pub to: String,
    /// What it says.
    pub body: String,
    /// The caller's own name for it.
    pub reference: Option<String>,
    pub(super) status: String,
    /// When, in UTC.
    pub created_at: String,
}
