-- Shards from which all payments have left: no list asks them any more, until somebody writes there again (crates/runtime/src/rest.rs).

-- wakes           how often a shard was woken
-- rests_since_ms  since when it is at rest; NULL while lists ask it
ALTER TABLE shards ADD COLUMN wakes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE shards ADD COLUMN rests_since_ms INTEGER;

-- In a shard: it is at rest, and takes no change that does not take this mark away. Always empty in D1.
CREATE TABLE shard_rest (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    mark INTEGER NOT NULL
) STRICT;
