-- How an operator's action has ended: done, begun (it goes on by itself), refused or failed. Nothing while it is under way, and in rows of earlier
-- releases: there the first words of the outcome say it.
ALTER TABLE operator_actions ADD COLUMN status TEXT;
