-- Where the read model is in more shards than one run of the reconciliation asks: how far a round of them has come, for each set of books. There is
-- no row where the newest run has asked all of them.
--
-- name         under which the cursors of the books stand; '' for the deployment's own
-- through_ms   when the last round began that left nothing out, or, before the first one is over, that one
-- began_at_ms  when the round began that is under way; NULL if there is none
-- after        the shard that was asked last in it
-- is_left      1: something in it was left to the next round
CREATE TABLE reconcile_rounds (
    name TEXT PRIMARY KEY,
    through_ms INTEGER NOT NULL,
    began_at_ms INTEGER,
    after TEXT,
    is_left INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
-- All shards, also those at rest, in the order of when their periods end: what has left is looked for in those of the newest periods first.
CREATE INDEX shards_by_end ON shards (ends, name);
