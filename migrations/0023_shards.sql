-- Which places the read model has beside this database: shards, in objects of the payments Worker. Without a layout all is here.
--
-- From from_ms on the payments that are made are spread over so many slots a month; 0 slots: they stay in this database.
--
-- spread          over how many of the slots one owner's payments are spread, where it is not one: JSON, by owner
-- moved_since_ms  those that were made here since then count as this layout's, too, from moved_at_ms on: the mover takes them there
-- cursor          where the mover goes on
-- done_at_ms      when the mover found nothing left to move for the first time
CREATE TABLE shard_layouts (
    layout_id INTEGER PRIMARY KEY,
    from_ms INTEGER NOT NULL,
    slots INTEGER NOT NULL,
    spread TEXT NOT NULL,
    moved_since_ms INTEGER,
    moved_at_ms INTEGER,
    cursor TEXT,
    moved INTEGER NOT NULL DEFAULT 0,
    done_at_ms INTEGER,
    made_at_ms INTEGER NOT NULL
) STRICT;

-- Which shards there are. Each is written down before anything is written into it.
CREATE TABLE shards (
    name TEXT PRIMARY KEY,
    made_at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
