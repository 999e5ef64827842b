-- Where the read model is in shards each place has runs of its own: of each the newest one stands in runs. Those that have failed.
CREATE INDEX runs_failing_places ON runs (at_ms)
    WHERE task > 'place:' AND task < 'place:~' AND result ->> '$.error' IS NOT NULL;
-- The shards that have runs, by their names: those at rest have none.
CREATE INDEX shards_awake_by_name ON shards (name) WHERE rests_since_ms IS NULL;
