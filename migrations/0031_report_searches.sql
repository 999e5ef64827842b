-- Payments that stand in Adyen's reports and were found neither in D1 nor in the shards where they most probably are: all other shards are
-- asked for them, a part of them in each run. Where all is in this database there are none.
--
-- payment   Adyen's id
-- is_again  1: it is looked for because of a break that is open already
-- after     the shard that was asked last; '' before the first one, null as long as it waits for its turn
CREATE TABLE report_searches (
    payment TEXT PRIMARY KEY,
    is_again INTEGER NOT NULL,
    after TEXT,
    since_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX report_searches_by_turn ON report_searches (after, is_again, since_ms);
