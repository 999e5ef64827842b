-- How far a list of the provider's was read. A pass reads what happened until until_ms, the newest first, and goes on after the
-- entry "after", in as many runs as it takes; then everything until through_ms is read.
CREATE TABLE cursors (
    name TEXT PRIMARY KEY,
    through_ms INTEGER NOT NULL,
    until_ms INTEGER,
    after TEXT
) STRICT;
