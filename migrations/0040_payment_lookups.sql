-- Payments of which a provider has told by its own id alone, and of which D1 did not know whose they are: how far all shards were asked for each, and what
-- came of it. Where all is in this database there are none.
--
-- provider  who tells of it: a provider, or an account there that has keys of its own (`adyen/account:a`)
-- since_ms  when it was first looked for
-- began_ms  when the newest round of all shards began, in ms since the epoch
-- after     the shard that was asked last in it; NULL: it is over
-- object    whose it is, where that was found
CREATE TABLE payment_lookups (
    provider TEXT NOT NULL,
    payment TEXT NOT NULL,
    since_ms INTEGER NOT NULL,
    began_ms INTEGER NOT NULL,
    after TEXT,
    object TEXT,
    at_ms INTEGER NOT NULL,
    PRIMARY KEY (provider, payment)
) STRICT, WITHOUT ROWID;
CREATE INDEX payment_lookups_by_time ON payment_lookups (at_ms);
