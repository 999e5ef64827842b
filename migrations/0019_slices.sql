-- How far the current pass over a list has come: the parts of its span of time that are not read to their end, as JSON. A pass that was begun
-- before there was this column begins again.
ALTER TABLE cursors ADD COLUMN slices TEXT;
