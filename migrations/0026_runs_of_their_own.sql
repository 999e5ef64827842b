-- Books whose account is gone are not compared any more: their lists are not behind. How far they were read stays.
ALTER TABLE cursors ADD COLUMN ended_at_ms INTEGER;
-- The list, of whichever account: how far behind it is read is one look into the index, however many accounts there are.
ALTER TABLE cursors ADD COLUMN list TEXT
    GENERATED ALWAYS AS (CASE instr(name, ':') WHEN 0 THEN name ELSE substr(name, 1, instr(name, ':') - 1) END) VIRTUAL;
CREATE INDEX cursors_by_list ON cursors (list, through_ms) WHERE ended_at_ms IS NULL;

-- Of each set of books that has runs of its own the newest one stands in runs. Those that have failed.
CREATE INDEX runs_failing ON runs (at_ms)
    WHERE task > 'reconcile:' AND task < 'reconcile:~' AND result ->> '$.error' IS NOT NULL;
