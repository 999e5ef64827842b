//! What the simulator remembers, behind one trait.
//!
//! Two stores implement it: `memory` for tests on the host, and the Durable Object's SQLite for the Worker. Everything that decides
//! something is written against the trait, and so is tested without a Worker. A store keeps rows; it knows no rule of a provider's.

use serde::{Deserialize, Serialize};

use crate::fault::PendingFault;

/// The store itself failed: a fault of the simulator, never of the caller. The transaction is rolled back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreError(pub String);

/// What a store's methods return.
pub type Stored<T> = Result<T, StoreError>;

/// How many API requests are remembered.
pub const REQUESTS_KEPT: i64 = 1000;

/// What kind of object a row is. Each provider names its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind(pub &'static str);

impl PartialEq<Kind> for String {
    fn eq(&self, kind: &Kind) -> bool {
        self == kind.0
    }
}

/// One API object with what lists, the ledger and the clock need to find it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Row {
    /// Given by the store: later rows have larger numbers.
    pub seq: i64,
    /// The name of its [`Kind`].
    pub kind: String,
    /// The account at Stripe that it belongs to; empty for what is of another provider.
    pub account: String,
    /// Its public id.
    pub id: String,
    /// When it was made, by the simulator's clock.
    pub created_ms: i64,
    /// The customer that it belongs to.
    pub customer: Option<String>,
    /// The PaymentIntent, or Adyen's payment, that it belongs to.
    pub parent: Option<String>,
    /// What else it is found by: an event's type, a refund's or a dispute's charge, a payment method's test card, a modification's kind, a message's reference.
    pub label: Option<String>,
    /// When time alone changes it: an authorisation lapses, a pending refund settles, a webhook is sent.
    pub due_ms: Option<i64>,
    /// The key of the request that made it.
    pub idempotency_key: Option<String>,
    /// The request that made it.
    pub request_id: String,
    /// The object as JSON.
    pub body: String,
}

/// A question to the store; every condition that is given must hold.
#[derive(Debug, Clone)]
pub struct Query {
    /// The kind asked for.
    pub kind: Kind,
    /// Only of this account at Stripe.
    pub account: Option<String>,
    /// Only of this customer.
    pub customer: Option<String>,
    /// Only of this PaymentIntent, or of this payment of Adyen's.
    pub parent: Option<String>,
    /// Only with one of these labels; empty means any.
    pub labels: Vec<String>,
    /// Made in this second or later.
    pub created_from_s: Option<i64>,
    /// Made in this second or before.
    pub created_until_s: Option<i64>,
    /// Only rows older than this one.
    pub before_seq: Option<i64>,
    /// Only rows newer than this one.
    pub after_seq: Option<i64>,
    /// Oldest first, instead of newest first.
    pub oldest_first: bool,
    /// At most this many.
    pub limit: i64,
}

impl Query {
    /// All of a kind, newest first.
    pub fn all(kind: impl Into<Kind>) -> Self {
        Query {
            kind: kind.into(),
            account: None,
            customer: None,
            parent: None,
            labels: Vec::new(),
            created_from_s: None,
            created_until_s: None,
            before_seq: None,
            after_seq: None,
            oldest_first: false,
            limit: i64::from(i32::MAX),
        }
    }
}

/// A key with the response that is replayed under it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredKey {
    /// The name of the provider whose key it is.
    pub provider: String,
    /// The account at Stripe whose key it is; empty at the others.
    pub account: String,
    /// The key as the caller sent it.
    pub key: String,
    /// The method that it is bound to.
    pub method: String,
    /// The endpoint that it is bound to.
    pub path: String,
    /// SHA-256 over the canonical parameters or body.
    pub fingerprint: String,
    /// When the response was stored.
    pub created_ms: i64,
    /// The first request: `Original-Request` of each replay.
    pub request_id: String,
    /// The status to replay.
    pub status: u16,
    /// The body to replay, byte for byte.
    pub body: String,
}

/// One line of the request log. It holds no header, no parameter and no secret: of the body, only the hash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoggedRequest {
    /// The id in `Request-Id`; for Adyen the `pspReference` of the answer.
    pub request_id: String,
    /// When it arrived, by the simulator's clock.
    pub at_ms: i64,
    /// The method.
    pub method: String,
    /// The path, without the query.
    pub path: String,
    /// The key, if one was sent.
    pub idempotency_key: Option<String>,
    /// The status that was answered; none while it runs, and none for ever where no answer was given.
    pub status: Option<u16>,
    /// Whether the answer was a stored one.
    pub replayed: bool,
    /// The fault that was played on it.
    pub fault: Option<String>,
    /// SHA-256 of the raw body, in hex.
    pub body_sha256: String,
    /// The caller's span, if one was named.
    pub traceparent: Option<String>,
}

/// Everything that is kept. Calls inside one transaction commit together or not at all.
pub trait Store {
    /// Adds an object; `seq` is given by the store.
    fn insert(&mut self, row: Row) -> Stored<()>;
    /// Writes a changed object back.
    fn replace(&mut self, kind: Kind, id: &str, body: String, due_ms: Option<i64>) -> Stored<()>;
    /// One object by id.
    fn find(&self, kind: Kind, id: &str) -> Stored<Option<Row>>;
    /// The objects that a query matches.
    fn list(&self, query: &Query) -> Stored<Vec<Row>>;
    /// What time alone should have changed by now, the earliest first.
    fn due(&self, now_ms: i64) -> Stored<Vec<Row>>;

    /// When time alone next changes anything.
    fn next_due_ms(&self) -> Stored<Option<i64>>;

    /// The stored response of an account's key.
    fn stored_key(&self, provider: &str, account: &str, key: &str) -> Stored<Option<StoredKey>>;
    /// Stores a response under its key.
    fn store_key(&mut self, stored: StoredKey) -> Stored<()>;
    /// Forgets a provider's keys stored before a moment.
    fn prune_keys(&mut self, provider: &str, before_ms: i64) -> Stored<()>;

    /// Arms a fault; `seq` is given by the store.
    fn push_fault(&mut self, fault: PendingFault) -> Stored<()>;
    /// The armed faults in the order in which they will be played.
    fn faults(&self) -> Stored<Vec<PendingFault>>;
    /// How often a fault is still to be played; at 0 it is removed.
    fn set_fault_remaining(&mut self, seq: i64, remaining: u32) -> Stored<()>;
    /// Disarms all.
    fn clear_faults(&mut self) -> Stored<()>;

    /// Notes a request that has just arrived, and forgets the oldest beyond [`REQUESTS_KEPT`].
    fn log_request(&mut self, request: LoggedRequest) -> Stored<()>;
    /// Notes what it was answered.
    fn finish_request(&mut self, request_id: &str, status: u16, replayed: bool) -> Stored<()>;
    /// The last `limit` requests, oldest first.
    fn requests(&self, key: Option<&str>, limit: i64) -> Stored<Vec<LoggedRequest>>;

    /// How far the simulator's clock is ahead of the wall clock.
    fn clock_offset_ms(&self) -> Stored<i64>;
    /// Moves the clock.
    fn set_clock_offset_ms(&mut self, offset_ms: i64) -> Stored<()>;

    /// A setting of the control surface.
    fn setting(&self, name: &str) -> Stored<Option<String>>;
    /// Changes one.
    fn set_setting(&mut self, name: &str, value: String) -> Stored<()>;

    /// Forgets everything, the clock and the faults too.
    fn clear(&mut self) -> Stored<()>;
}
