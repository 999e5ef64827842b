-- What is looked for, of which Stripe gives no usable answer, is asked for again, and given up in the end: a break of the kind 'unanswered'.
--
-- tries        how often Stripe has given none
-- next_at_ms   it waits until then
ALTER TABLE payment_searches ADD COLUMN tries INTEGER NOT NULL DEFAULT 0;
ALTER TABLE payment_searches ADD COLUMN next_at_ms INTEGER NOT NULL DEFAULT 0;

-- What Adyen tells has its turn by merchant account, and by whether it names one of our objects: the account is empty where it is that of the
-- deployment.
ALTER TABLE inbox ADD COLUMN account TEXT NOT NULL DEFAULT '';
UPDATE inbox SET account = substr(event_key, 1, instr(event_key, ':adyen:') - 1) WHERE state = 'waiting' AND event_key GLOB 'keys:*:adyen:*';
DROP INDEX inbox_waiting;
CREATE INDEX inbox_waiting ON inbox (account, (object IS NULL), next_at_ms) WHERE state = 'waiting';
