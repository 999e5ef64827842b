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
