-- Payments in Stripe's lists that were found neither in D1 nor in the shards where they most probably are: all other shards are asked for them, a
-- part of them in each run. Where all is in this database there are none.
--
-- books     under which name the books are compared: as stripe_account in looks, '' for the deployment's
-- payment   Stripe's id
-- due       what is done once it is found, or is known to be nowhere: 'compare', 'moved', or Stripe's id of a refund, a movement or a dispute
-- resource  our id, where Stripe has one
-- after     the shard that was asked last; '' before the first one, null as long as it waits for its turn
CREATE TABLE payment_searches (
    books TEXT NOT NULL,
    payment TEXT NOT NULL,
    due TEXT NOT NULL,
    resource TEXT,
    after TEXT,
    since_ms INTEGER NOT NULL,
    PRIMARY KEY (books, payment, due)
) STRICT, WITHOUT ROWID;
CREATE INDEX payment_searches_by_turn ON payment_searches (books, after, since_ms);

-- The connected accounts of the registry, whose books are compared.
CREATE INDEX accounts_by_stripe_account ON accounts (settings ->> '$.stripe_account') WHERE settings ->> '$.stripe_account' IS NOT NULL;
