-- The account at Stripe in which a payment was made, where it is one that is connected to the key's own; else NULL.
ALTER TABLE payments ADD COLUMN stripe_account TEXT;
ALTER TABLE rides ADD COLUMN stripe_account TEXT;
ALTER TABLE looks ADD COLUMN stripe_account TEXT;
ALTER TABLE breaks ADD COLUMN stripe_account TEXT;
CREATE INDEX payments_by_stripe_account ON payments (stripe_account) WHERE stripe_account IS NOT NULL;
CREATE INDEX rides_by_stripe_account ON rides (stripe_account) WHERE stripe_account IS NOT NULL;

-- Whose books are compared with ours: the account and the mode of the key (one row), and what stands for the key of which that is known.
CREATE TABLE compared_account (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    account TEXT NOT NULL,
    credential TEXT NOT NULL
) STRICT;
