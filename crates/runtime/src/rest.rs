//! A shard at rest: all of its payments have left, so no list and no task asks it any more. Whoever writes there wakes it, and whoever looks for
//! what has left still asks it.
//!
//! D1 says which shards rest (`shards.rests_since_ms`), and a shard is marked as one that does (`shard_rest`): then it refuses what would change
//! its rows. While D1 says that it rests it is marked, so nothing is written that no list shows:
//!
//! - To rest: 1. D1's count of wakes is read. 2. The shard is marked with that number, if it has no rows. 3. D1 says so, if the count is the same.
//! - To wake: 1. D1 says that it does not rest, and counts. 2. The mark that was seen is taken away with what is written, in one transaction; if
//!   there is a greater one meanwhile it is refused, and begins again.
//!
//! A mark goes only after 1 of waking, which came after it was seen, and so after the count was read with which it was made: 3 finds another
//! count. Broken off anywhere, the shard is marked and asked all the same, or it is woken once too often.

/// D1: `?1` does not rest.
pub const WAKE: &str = "UPDATE shards SET rests_since_ms = NULL, wakes = wakes + 1 WHERE name = ?1";
/// The shard: the mark `?1` goes.
pub const UNMARK: &str = "DELETE FROM shard_rest WHERE mark = ?1";
/// How often one is woken for one question: there is one that lays it to rest every few minutes.
const TRIES: usize = 5;

/// What came of a question.
#[derive(Debug)]
pub enum Asked<T> {
    /// It is done.
    Done(T),
    /// The shard is at rest, by this mark, and would have been changed.
    AtRest(u64),
}

/// Asks a shard, and wakes it where it is at rest and would be changed. `ask` takes the mark away that it is given. `None` if it was laid to rest
/// again each time.
pub async fn waking<T, E>(
    ask: impl AsyncFn(Option<u64>) -> Result<Asked<T>, E>,
    wake: impl AsyncFn() -> Result<(), E>,
) -> Result<Option<T>, E> {
    let mut mark = None;
    for _ in 0..TRIES {
        match ask(mark).await? {
            Asked::Done(done) => return Ok(Some(done)),
            Asked::AtRest(seen) => {
                wake().await?;
                mark = Some(seen);
            }
        }
    }
    Ok(None)
}
