-- What others than us have given back of a payment, such as a person at the provider's dashboard.
ALTER TABLE payments ADD COLUMN refunded_elsewhere_minor INTEGER NOT NULL DEFAULT 0;
