-- The registry of API accounts, beside those of the secret API_ACCOUNTS. Made and changed at the desk, and by the operator's API.
--
-- id             as payments name their owner; an account of API_ACCOUNTS with the same id goes before it
-- settings       what it pays with, who sells, what it may charge: JSON, of tokens of the provider's only
-- state          active, or closed: no token of it is good, and nothing new is charged
-- version        counts the changes, so that of two forms that were open the second does not undo the first
CREATE TABLE accounts (
    id TEXT PRIMARY KEY,
    settings TEXT NOT NULL,
    state TEXT NOT NULL,
    version INTEGER NOT NULL,
    created_at_ms INTEGER NOT NULL,
    changed_at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The tokens with which an account's servers come, also an account's of API_ACCOUNTS: several, so that one is replaced by another without a gap.
--
-- token_sha256   of the token: it is kept nowhere itself
-- name           what an operator calls it
-- ends_at_ms     from when on it is not good; in the past if it was revoked; NULL for no end
CREATE TABLE account_tokens (
    token_sha256 TEXT PRIMARY KEY,
    account TEXT NOT NULL,
    name TEXT NOT NULL,
    created_at_ms INTEGER NOT NULL,
    ends_at_ms INTEGER
) STRICT, WITHOUT ROWID;

CREATE INDEX account_tokens_by_account ON account_tokens (account, created_at_ms);
