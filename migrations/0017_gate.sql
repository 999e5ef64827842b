-- What the gate has passed on, for the desk. Nothing of what was sent or answered.
--
-- key_hash       stands for the key and its visitor, and names the object; its first eight digits are the reference that a person is shown
-- number         a key that is free again has another operation under it, numbered on from 1
-- version        of the object: an older one changes nothing
-- host, route    as the operator has written the route: a path may hold what is nobody's business
-- state          open, in_doubt (it is found out once its visitor comes again), unknown (an operator says how it ended), done, shown_again,
--                refused, never_sent, not_done (an operator has said so)
-- status         of the origin's answer, where there is one
-- replays        how often a duplicate was answered from it, as far as that is written down
CREATE TABLE gate_operations (
    key_hash TEXT NOT NULL,
    number INTEGER NOT NULL,
    version INTEGER NOT NULL,
    host TEXT NOT NULL,
    route TEXT NOT NULL,
    state TEXT NOT NULL,
    status INTEGER,
    attempts INTEGER NOT NULL,
    replays INTEGER NOT NULL,
    began_at_ms INTEGER NOT NULL,
    ended_at_ms INTEGER,
    PRIMARY KEY (key_hash, number)
) STRICT, WITHOUT ROWID;

CREATE INDEX gate_operations_by_time ON gate_operations (began_at_ms DESC, key_hash, number);
-- Nearly all are done: those have no entry here.
CREATE INDEX gate_operations_by_state ON gate_operations (state, began_at_ms DESC, key_hash, number) WHERE state != 'done';
-- Those that duplicates came of: few.
CREATE INDEX gate_operations_replayed ON gate_operations (began_at_ms, replays) WHERE replays > 0;
