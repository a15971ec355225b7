-- insert_events: append rows that come from Python.
-- inputs:
-- reads:   incoming (one row = the columns of events; registered by the caller)
-- returns: nothing
-- by hand: CREATE TEMP TABLE incoming AS FROM events LIMIT 0; then .read sql/steps/insert_events.sql
INSERT INTO events BY NAME SELECT * FROM incoming;
