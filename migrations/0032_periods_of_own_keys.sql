-- When which account at Stripe had the payments of an account with keys of its own: a payment is compared with the books of the one whose key was
-- there when it was made. This takes the place of compared_own_keys, which only an earlier release reads.
--
-- name            keys:ACCOUNT, as payments have it in stripe_account
-- from_ms         since when the key was there; 0 for an account's first one
-- stripe_account  the account at Stripe that it is of, as that said
-- mode            live or test
-- until_ms        until when; NULL while it is there. A key that is rolled stays there
CREATE TABLE own_key_periods (
    name TEXT NOT NULL,
    from_ms INTEGER NOT NULL,
    stripe_account TEXT NOT NULL,
    mode TEXT NOT NULL,
    until_ms INTEGER,
    PRIMARY KEY (name, from_ms)
) STRICT, WITHOUT ROWID;
CREATE INDEX own_key_periods_by_stripe_account ON own_key_periods (stripe_account, mode);

-- Those that were compared last: the key that was there then may be gone.
INSERT INTO own_key_periods (name, from_ms, stripe_account, mode, until_ms)
SELECT name, 0, substr(account, 1, instr(account, ' ') - 1), rtrim(substr(account, instr(account, '(') + 1), ')'),
    CASE WHEN EXISTS (SELECT 1 FROM account_credentials c WHERE 'keys:' || c.account = name AND c.kind = 'stripe_secret_key'
            AND compared_own_keys.account = c.stripe_account || ' (' || c.mode || ')') THEN NULL
        ELSE coalesce((SELECT changed_at_ms FROM account_credentials c WHERE 'keys:' || c.account = name AND c.kind = 'stripe_secret_key'),
            unixepoch() * 1000) END
FROM compared_own_keys WHERE instr(account, ' (') > 1;
-- And the keys that are there.
INSERT INTO own_key_periods (name, from_ms, stripe_account, mode)
SELECT 'keys:' || c.account,
    CASE WHEN EXISTS (SELECT 1 FROM own_key_periods p WHERE p.name = 'keys:' || c.account) THEN c.changed_at_ms ELSE 0 END,
    c.stripe_account, c.mode
FROM account_credentials c WHERE c.kind = 'stripe_secret_key' AND c.stripe_account IS NOT NULL AND c.mode IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM own_key_periods p WHERE p.name = 'keys:' || c.account AND p.until_ms IS NULL);
