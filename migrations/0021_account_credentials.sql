-- The keys of accounts that have keys of their own at Stripe. Only the payments Worker can open them: they are sealed under its secret
-- CREDENTIALS_KEY, each for this account and this kind.
--
-- account         of the registry
-- kind            stripe_secret_key, stripe_publishable_key, stripe_webhook_secret, or stripe_webhook_secret_before: the one that it replaces
-- sealed          AES-256-GCM, in base64: the nonce, and what is encrypted
-- sealed_with     names the key under which it is sealed; says nothing about it
-- hint            what is shown: how it begins and its last four characters
-- mode            live or test; NULL where the key does not say it
-- stripe_account  the account at Stripe that it is of, as that said; NULL if it may not say it
CREATE TABLE account_credentials (
    account TEXT NOT NULL,
    kind TEXT NOT NULL,
    sealed TEXT NOT NULL,
    sealed_with TEXT NOT NULL,
    hint TEXT NOT NULL,
    mode TEXT,
    stripe_account TEXT,
    changed_at_ms INTEGER NOT NULL,
    PRIMARY KEY (account, kind)
) STRICT, WITHOUT ROWID;

-- Two accounts do not have the same books: each payment would be unknown in one of them.
CREATE UNIQUE INDEX account_credentials_by_stripe_account ON account_credentials (stripe_account, mode) WHERE stripe_account IS NOT NULL;
CREATE INDEX account_credentials_by_key ON account_credentials (sealed_with);

-- Whose books are compared with ours, of each account with keys of its own: as compared_account has it of the deployment's key.
CREATE TABLE compared_own_keys (
    name TEXT PRIMARY KEY,
    account TEXT NOT NULL
) STRICT, WITHOUT ROWID;
