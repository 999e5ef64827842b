-- One row: which account (as in inbox.account) had the last turn, where a run of the clock did not come round to all that wait.
CREATE TABLE inbox_turn (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    account TEXT NOT NULL
) STRICT;

-- What was looked for in books that nobody reads any more is forgotten.
CREATE INDEX payment_searches_by_time ON payment_searches (since_ms);
