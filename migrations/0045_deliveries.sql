-- What an account's endpoint has not taken, as its shop sees it: GET /webhook-endpoint/deliveries. What is done has no payload any more.
CREATE INDEX jobs_deliveries ON jobs (payload ->> '$.account', staged_at_ms, job_id)
    WHERE kind = 'deliver_webhook' AND payload IS NOT NULL;
