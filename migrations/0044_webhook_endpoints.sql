-- Where a shop is told of its payments: one endpoint of an account. No secret stands here: it is derived of the account, of when its endpoint was
-- made, and of the number of its version.
-- docs/protocol-shop.md says what is sent.
--
-- url             where it is told; NULL once it was removed: then the next one has another secret
-- secret_version  grows with each new secret
-- rotated_at_ms   when the newest secret took the place of the one before, which signs for another day
CREATE TABLE webhook_endpoints (
    account TEXT PRIMARY KEY,
    url TEXT,
    secret_version INTEGER NOT NULL,
    rotated_at_ms INTEGER,
    created_at_ms INTEGER NOT NULL,
    updated_at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
