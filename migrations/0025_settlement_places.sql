-- The places of which a day's settlement consists, where the read model is in shards: fixed when this database begins to close the day. Of a day
-- without rows here this database has all.
--
-- file           of the day, as in settlement_files
-- place          a shard, or '' for this database
-- parts          what the place has written, as the manifest names it: JSON
-- written_at_ms  when all of it was there
-- failed_at_ms   when it was last tried in vain, and why
CREATE TABLE settlement_places (
    file TEXT NOT NULL,
    place TEXT NOT NULL,
    day TEXT NOT NULL,
    parts TEXT,
    written_at_ms INTEGER,
    failed_at_ms INTEGER,
    error TEXT,
    PRIMARY KEY (file, place)
) STRICT, WITHOUT ROWID;
CREATE INDEX settlement_places_unwritten ON settlement_places (place, day) WHERE written_at_ms IS NULL;
