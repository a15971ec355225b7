-- insert_vetoed: append rows that come from Python.
-- inputs:
-- reads:   incoming (one row = the columns of vetoed; registered by the caller)
-- returns: nothing
-- by hand: CREATE TEMP TABLE incoming AS FROM vetoed LIMIT 0; then .read sql/steps/insert_vetoed.sql
INSERT INTO vetoed BY NAME SELECT * FROM incoming;
