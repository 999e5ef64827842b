-- When the response of a finished key expires. Nobody tells of that when it happens: whoever reads the row compares the times.
ALTER TABLE keys ADD COLUMN expires_at_ms INTEGER;
