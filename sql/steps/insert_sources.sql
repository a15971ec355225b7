-- insert_sources: append the stretches of input that are committed.
-- inputs:
-- reads:   incoming (one row = the columns of sources; registered by the caller)
-- returns: nothing
-- by hand: CREATE TABLE incoming AS FROM sources LIMIT 0; then .read sql/steps/insert_sources.sql
INSERT INTO sources BY NAME SELECT * FROM incoming;
