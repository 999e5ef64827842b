-- Payments that have left for the files of history in R2. What stays of each is how it is found there: some tens of bytes.

-- What leaves together. Its files are named by its number.
--
-- state      writing (its payments are in history_leaving, and in the tables), written (they are in its files, and nowhere else), void (one
--            of them changed meanwhile: its files are deleted, and its payments leave later with another one)
-- month      in which its payments were made (UTC), such as 2025-10
CREATE TABLE history_batches (
    batch INTEGER PRIMARY KEY,
    state TEXT NOT NULL CHECK (state IN ('writing', 'written', 'void')),
    month TEXT NOT NULL,
    -- How many payments it has, and between which they lie.
    payments INTEGER,
    first_payment TEXT,
    last_payment TEXT,
    first_at_ms INTEGER,
    last_at_ms INTEGER,
    began_at_ms INTEGER NOT NULL,
    changed_at_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX history_batches_unwritten ON history_batches (batch) WHERE state != 'written';

-- The payments of the batch that is being written, at the version at which they leave.
CREATE TABLE history_leaving (
    batch INTEGER NOT NULL,
    payment_id TEXT NOT NULL,
    object TEXT NOT NULL,
    version INTEGER NOT NULL,
    PRIMARY KEY (batch, payment_id)
) STRICT, WITHOUT ROWID;

-- The files of the written batches. kind: payments, refunds, keys, audit.
CREATE TABLE history_files (
    batch INTEGER NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    rows INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    sha256 TEXT NOT NULL,
    PRIMARY KEY (batch, kind)
) STRICT, WITHOUT ROWID;

-- Each payment that has left, also one that has changed since and is in `payments` again. Its id is made of its object's.
--
-- batch, version   of the newest row in a file
-- audit_through    the newest audit record in a file: those up to it are there
-- is_booked        whether its money was found in the provider's books
CREATE TABLE history_payments (
    object BLOB PRIMARY KEY,
    batch INTEGER NOT NULL,
    version INTEGER NOT NULL,
    audit_through INTEGER NOT NULL,
    is_booked INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What else they are looked for by, as the first 47 bits of its SHA-256: the provider's id, the order, a refund's id here and there. `place` is
-- how the object's id begins, with 64 bits.
CREATE TABLE history_names (
    name INTEGER NOT NULL,
    place BLOB NOT NULL,
    PRIMARY KEY (name, place)
) STRICT, WITHOUT ROWID;

-- How far the payments have been looked through, in the order in which they were made; then again from the first.
CREATE TABLE history_pass (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    after_ms INTEGER NOT NULL,
    after_row INTEGER NOT NULL
) STRICT;
