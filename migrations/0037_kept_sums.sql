-- What the plots of the desk's overview show is summed once for each minute, half hour and three hours that are over, and kept. Each place of the
-- read model has the sums of its own rows. `desk/src/kept_sums.rs` says how they are read, `desk/src/tasks/plots.rs` how they are made.

-- slice_ms   how long the slice is
-- from_ms    when it begins
-- sums       a JSON array of [what, name, currency, number, minor]; a slice in which nothing was has no row
CREATE TABLE plot_sums (
    slice_ms INTEGER NOT NULL,
    from_ms INTEGER NOT NULL,
    sums TEXT NOT NULL,
    PRIMARY KEY (slice_ms, from_ms)
) STRICT, WITHOUT ROWID;

-- One row: all minutes from here to there are summed, but for those in `plot_changes`. Without it none is.
CREATE TABLE plot_summed (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    from_ms INTEGER NOT NULL,
    until_ms INTEGER NOT NULL
) STRICT;

-- Minutes in which something has changed since they were summed: neither their sums nor those of the slices around them are read, until they are
-- summed again. The database itself notes them, whoever writes. What is written of a payment when it is made, or soon after, is in no minute that
-- is summed: so it costs no row.
CREATE TABLE plot_changes (minute_ms INTEGER PRIMARY KEY) STRICT;

CREATE TRIGGER plots_payment_made AFTER INSERT ON payments
WHEN new.created_at_ms < (SELECT until_ms FROM plot_summed) AND new.created_at_ms >= (SELECT from_ms FROM plot_summed)
BEGIN
    INSERT INTO plot_changes (minute_ms) VALUES (new.created_at_ms / 60000 * 60000) ON CONFLICT DO NOTHING;
END;

CREATE TRIGGER plots_payment_changed
AFTER UPDATE OF status, currency, captured_minor, key_hash, key_finished_at_ms, done_jobs, created_at_ms ON payments
WHEN (new.status, new.currency, new.captured_minor, new.key_hash, new.key_finished_at_ms, new.done_jobs, new.created_at_ms)
    IS NOT (old.status, old.currency, old.captured_minor, old.key_hash, old.key_finished_at_ms, old.done_jobs, old.created_at_ms)
BEGIN
    INSERT INTO plot_changes (minute_ms)
    SELECT at_ms / 60000 * 60000 FROM (SELECT old.created_at_ms AS at_ms UNION SELECT new.created_at_ms) CROSS JOIN plot_summed
    WHERE at_ms < until_ms AND at_ms >= from_ms ON CONFLICT DO NOTHING;
END;

CREATE TRIGGER plots_payment_gone AFTER DELETE ON payments
WHEN old.created_at_ms < (SELECT until_ms FROM plot_summed) AND old.created_at_ms >= (SELECT from_ms FROM plot_summed)
BEGIN
    INSERT INTO plot_changes (minute_ms) VALUES (old.created_at_ms / 60000 * 60000) ON CONFLICT DO NOTHING;
END;

CREATE TRIGGER plots_key_made AFTER INSERT ON keys
WHEN new.finished_at_ms IS NOT NULL
    AND new.created_at_ms < (SELECT until_ms FROM plot_summed) AND new.created_at_ms >= (SELECT from_ms FROM plot_summed)
BEGIN
    INSERT INTO plot_changes (minute_ms) VALUES (new.created_at_ms / 60000 * 60000) ON CONFLICT DO NOTHING;
END;

CREATE TRIGGER plots_key_changed AFTER UPDATE OF finished_at_ms, created_at_ms ON keys
WHEN (new.finished_at_ms, new.created_at_ms) IS NOT (old.finished_at_ms, old.created_at_ms)
BEGIN
    INSERT INTO plot_changes (minute_ms)
    SELECT at_ms / 60000 * 60000 FROM (SELECT old.created_at_ms AS at_ms UNION SELECT new.created_at_ms) CROSS JOIN plot_summed
    WHERE at_ms < until_ms AND at_ms >= from_ms ON CONFLICT DO NOTHING;
END;

CREATE TRIGGER plots_key_gone AFTER DELETE ON keys
WHEN old.finished_at_ms IS NOT NULL
    AND old.created_at_ms < (SELECT until_ms FROM plot_summed) AND old.created_at_ms >= (SELECT from_ms FROM plot_summed)
BEGIN
    INSERT INTO plot_changes (minute_ms) VALUES (old.created_at_ms / 60000 * 60000) ON CONFLICT DO NOTHING;
END;

CREATE TRIGGER plots_job_made AFTER INSERT ON jobs
WHEN new.state = 'done'
    AND new.updated_at_ms < (SELECT until_ms FROM plot_summed) AND new.updated_at_ms >= (SELECT from_ms FROM plot_summed)
BEGIN
    INSERT INTO plot_changes (minute_ms) VALUES (new.updated_at_ms / 60000 * 60000) ON CONFLICT DO NOTHING;
END;

CREATE TRIGGER plots_job_changed AFTER UPDATE OF state, staged_at_ms, updated_at_ms ON jobs
WHEN 'done' IN (old.state, new.state)
    AND (new.state, new.staged_at_ms, new.updated_at_ms) IS NOT (old.state, old.staged_at_ms, old.updated_at_ms)
BEGIN
    INSERT INTO plot_changes (minute_ms)
    SELECT at_ms / 60000 * 60000 FROM (SELECT old.updated_at_ms AS at_ms UNION SELECT new.updated_at_ms) CROSS JOIN plot_summed
    WHERE at_ms < until_ms AND at_ms >= from_ms ON CONFLICT DO NOTHING;
END;

CREATE TRIGGER plots_job_gone AFTER DELETE ON jobs
WHEN old.state = 'done'
    AND old.updated_at_ms < (SELECT until_ms FROM plot_summed) AND old.updated_at_ms >= (SELECT from_ms FROM plot_summed)
BEGIN
    INSERT INTO plot_changes (minute_ms) VALUES (old.updated_at_ms / 60000 * 60000) ON CONFLICT DO NOTHING;
END;
