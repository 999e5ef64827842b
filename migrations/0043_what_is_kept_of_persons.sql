-- What Adyen gives as the reason of an authorisation is of the card: it is kept no more, and goes from what waits or lies in the dead letters.
UPDATE inbox SET event = json_replace(event, '$.news.reason', '')
WHERE state IN ('waiting', 'dead') AND event ->> '$.news.success' AND event ->> '$.news.reason' <> '';

-- The keys of customers go some time after their responses: those of payments leave with them.
CREATE INDEX keys_of_customers ON keys (expires_at_ms) WHERE operation = 'customer';
