-- When the sweep last woke the object of a payment that waits for its provider.
ALTER TABLE payments ADD COLUMN woken_at_ms INTEGER;
CREATE INDEX payments_waiting ON payments (updated_at_ms) WHERE status IN ('processing', 'requires_action');
CREATE INDEX refunds_waiting ON refunds (payment_id) WHERE status = 'pending';
