-- What is looked for, of which Stripe gives no usable answer, is asked for again, and given up in the end: a break of the kind 'unanswered'.
--
-- tries        how often Stripe has given none
-- next_at_ms   it waits until then
ALTER TABLE payment_searches ADD COLUMN tries INTEGER NOT NULL DEFAULT 0;
ALTER TABLE payment_searches ADD COLUMN next_at_ms INTEGER NOT NULL DEFAULT 0;
