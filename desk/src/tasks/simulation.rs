//! What the simulations of the tasks share: a repeatable choice, a turn for others, and values as SQLite takes them.

use std::cell::Cell;
use std::future::poll_fn;
use std::task::Poll;

use runtime::db::Value;
use rusqlite::types::Value as Sql;
use rusqlite::{Connection, Params};

/// A generator of random numbers (xorshift64): the same ones for the same seed.
pub(super) struct Rng(Cell<u64>);

impl Rng {
    pub(super) fn new(seed: u64) -> Self {
        Self(Cell::new(seed * 2 + 1))
    }

    /// A number below `sides`.
    pub(super) fn roll(&self, sides: u64) -> u64 {
        let mut state = self.0.get();
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        self.0.set(state);
        (state >> 11) % sides
    }
}

/// Lets others run, as a question to a database does.
pub(super) async fn turn() {
    let mut is_over = false;
    poll_fn(|_| match std::mem::replace(&mut is_over, true) {
        true => Poll::Ready(()),
        false => Poll::Pending,
    })
    .await;
}

/// Runs a statement that is compiled once for its database.
pub(super) fn execute(db: &Connection, sql: &str, values: impl Params) -> rusqlite::Result<usize> {
    db.prepare_cached(sql)?.execute(values)
}

/// Values as rusqlite binds them.
pub(super) fn bound(values: &[Value]) -> rusqlite::ParamsFromIter<Vec<Sql>> {
    let bound = |value: &Value| match value {
        Value::Null => Sql::Null,
        Value::Number(number) => Sql::Integer(number.cast_signed()),
        Value::Text(text) => Sql::Text(text.clone()),
    };
    rusqlite::params_from_iter(values.iter().map(bound).collect())
}
