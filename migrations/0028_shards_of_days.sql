-- Shards of less than a month, and a directory of them that is read by time: a reader asks for the newest, or for those of an account, and not
-- for all that there are.

-- period  of how long a time the payments of a shard are: 'month', 'day' or 'hour' (UTC)
ALTER TABLE shard_layouts ADD COLUMN period TEXT NOT NULL DEFAULT 'month';

-- Parts of the name, g2-2026-11-25-003, which a release before writes, too: 2026-11-25 is the period, and g2-003 the layout and its slot. By ends
-- they are in the order of when their periods end: 2026-11~ is behind 2026-11-30~, and this behind 2026-11-30T23~.
ALTER TABLE shards ADD COLUMN period TEXT AS (substr(name, instr(name, '-') + 1, length(name) - instr(name, '-') - 4)) VIRTUAL;
ALTER TABLE shards ADD COLUMN slot TEXT AS (substr(name, 1, instr(name, '-')) || substr(name, -3)) VIRTUAL;
ALTER TABLE shards ADD COLUMN ends TEXT AS (substr(name, instr(name, '-') + 1, length(name) - instr(name, '-') - 4) || '~') VIRTUAL;

CREATE INDEX shards_by_time ON shards (period, name);
CREATE INDEX shards_awake ON shards (ends, name) WHERE rests_since_ms IS NULL;
CREATE INDEX shards_awake_by_slot ON shards (slot, ends) WHERE rests_since_ms IS NULL;
CREATE INDEX shards_at_rest ON shards (period, name) WHERE rests_since_ms IS NOT NULL;
