-- Acknowledgements of the bank, in the bucket under answers/, of which some lines are not decided yet.
--
-- after        the shard that was asked last for the lines that name no place; NULL as long as no search was begun, '' before the first shard
-- missed       the shards behind which the search has gone on though they did not answer: JSON
-- looked_at_ms when a run has last looked at it: those that wait have their turns
CREATE TABLE answers_unfinished (
    name TEXT NOT NULL,
    content TEXT NOT NULL,
    after TEXT,
    missed TEXT NOT NULL DEFAULT '[]',
    looked_at_ms INTEGER NOT NULL,
    PRIMARY KEY (name, content)
) STRICT, WITHOUT ROWID;

-- When the newest run of a shard began of which it is known how it ended; 0 before the first one. The cron looks for those of which nothing was
-- heard for long, and for no others.
ALTER TABLE shards ADD COLUMN heard_at_ms INTEGER NOT NULL DEFAULT 0;
CREATE INDEX shards_awake_by_heard ON shards (heard_at_ms, name) WHERE rests_since_ms IS NULL;
CREATE TRIGGER runs_heard AFTER INSERT ON runs WHEN new.task > 'place:' AND new.task < 'place:~'
BEGIN
    UPDATE shards SET heard_at_ms = new.at_ms WHERE name = substr(new.task, 7);
END;

-- How many shards are not at rest: counted as they come and go.
CREATE TABLE shard_counts (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    awake INTEGER NOT NULL
) STRICT;
INSERT INTO shard_counts (id, awake) SELECT 1, count(*) FROM shards WHERE rests_since_ms IS NULL;
CREATE TRIGGER shards_made AFTER INSERT ON shards WHEN new.rests_since_ms IS NULL
BEGIN
    UPDATE shard_counts SET awake = awake + 1;
END;
CREATE TRIGGER shards_gone AFTER DELETE ON shards WHEN old.rests_since_ms IS NULL
BEGIN
    UPDATE shard_counts SET awake = awake - 1;
END;
CREATE TRIGGER shards_rest AFTER UPDATE OF rests_since_ms ON shards WHEN old.rests_since_ms IS NULL AND new.rests_since_ms IS NOT NULL
BEGIN
    UPDATE shard_counts SET awake = awake - 1;
END;
-- Its runs begin anew.
CREATE TRIGGER shards_woken AFTER UPDATE OF rests_since_ms ON shards WHEN old.rests_since_ms IS NOT NULL AND new.rests_since_ms IS NULL
BEGIN
    UPDATE shard_counts SET awake = awake + 1;
    UPDATE shards SET heard_at_ms = 0 WHERE name = new.name;
END;

-- The newest runs of places that have something to say: of a shard in which nothing was done, and nothing waits, the result is {}.
CREATE INDEX runs_telling ON runs (task) WHERE task > 'place:' AND task < 'place:~' AND result <> '{}';
