-- The provider's id of the payment under which a comparison has found it in the provider's list, and under which its money was found
-- in the provider's balance: another try has another id.
ALTER TABLE payments ADD COLUMN listed_payment TEXT;
ALTER TABLE payments ADD COLUMN moved_payment TEXT;
ALTER TABLE rides ADD COLUMN listed_payment TEXT;
ALTER TABLE rides ADD COLUMN moved_payment TEXT;
-- The same of a refund.
ALTER TABLE refunds ADD COLUMN moved_refund TEXT;

-- Those that hold money of which the provider's books have not been found to say the same.
CREATE INDEX payments_unbooked ON payments (updated_at_ms) WHERE status IN ('succeeded', 'requires_capture', 'disputed')
    AND (provider_payment IS NULL OR listed_payment IS NOT provider_payment OR moved_payment IS NOT provider_payment);
CREATE INDEX rides_unbooked ON rides (updated_at_ms) WHERE status = 'paid'
    AND (provider_payment IS NULL OR listed_payment IS NOT provider_payment OR moved_payment IS NOT provider_payment);
CREATE INDEX refunds_unbooked ON refunds (updated_at_ms) WHERE status = 'succeeded' AND moved_refund IS NOT provider_refund;
CREATE INDEX refunds_by_provider_refund ON refunds (provider_refund) WHERE provider_refund IS NOT NULL;

-- Payments that had only just changed when they were compared: each is compared again.
CREATE TABLE looks (
    provider_payment TEXT PRIMARY KEY,
    since_ms INTEGER NOT NULL
) STRICT;

-- What of a payment is under way at the provider, and when its object asks there by itself: long past means that its alarm was lost.
ALTER TABLE payments ADD COLUMN pending_operation TEXT;
ALTER TABLE payments ADD COLUMN wake_at_ms INTEGER;
UPDATE payments SET pending_operation = shown ->> '$.pending_operation.type' WHERE json_type(shown, '$.pending_operation') = 'object';
CREATE INDEX payments_pending ON payments (updated_at_ms) WHERE pending_operation IS NOT NULL;
CREATE INDEX payments_by_wake ON payments (wake_at_ms) WHERE wake_at_ms IS NOT NULL;
