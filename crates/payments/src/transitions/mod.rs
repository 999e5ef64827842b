//! What happens to a payment, whoever brings it about: a flow, a provider's event, an answer to what it was asked, an operator, or time.
//! Each takes an object's rows and changes them; what is sent, and when, follows from that.

pub mod answering;
pub mod answers;
pub mod audit;
pub mod by_hand;
pub mod contradictions;
pub(crate) mod disputes;
pub(crate) mod effects;
pub(crate) mod ended;
mod event_account;
pub(crate) mod give_back;
pub mod ingest;
pub mod late_money;
mod late_news;
pub mod left_open;
mod own_moves;
pub mod pii;
pub mod polling;
pub mod projection;
pub mod receipt;
pub(crate) mod refunds;
pub(crate) mod try_queries;
pub mod try_rows;
