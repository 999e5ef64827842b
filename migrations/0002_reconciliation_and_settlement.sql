-- When a break's object was last asked to find out what is true.
ALTER TABLE breaks ADD COLUMN asked_at_ms INTEGER;
