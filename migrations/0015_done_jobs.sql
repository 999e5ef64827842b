-- A job of a payment that is done at its first try has no row: it stands in the payment's own, by its id, as a JSON array of its kind, its
-- result, when it was staged and when it was done. `jobs` holds those that were tried in vain, or are given up.
ALTER TABLE payments ADD COLUMN done_jobs TEXT;

-- All jobs. `near_at_ms` is at most an hour before a job was staged, and has an index.
CREATE VIEW job_list AS
    SELECT job_id, kind, object, state, attempts, payload, frozen, first_at_ms, history, result, staged_at_ms, updated_at_ms,
        updated_at_ms AS near_at_ms FROM jobs
    UNION ALL
    SELECT done.key, done.value ->> '$[0]', object, CAST('done' AS TEXT), CAST(1 AS INTEGER), CAST(NULL AS TEXT), CAST(NULL AS TEXT),
        CAST(done.value ->> '$[2]' AS INTEGER), CAST('[]' AS TEXT), done.value ->> '$[1]', CAST(done.value ->> '$[2]' AS INTEGER),
        CAST(done.value ->> '$[3]' AS INTEGER), created_at_ms FROM payments, json_each(payments.done_jobs) AS done
    WHERE done_jobs IS NOT NULL AND NOT EXISTS (SELECT 1 FROM jobs j WHERE j.job_id = done.key);
