-- insert_batches: append rows that come from Python.
-- inputs:
-- reads:   incoming (one row = the columns of batches; registered by the caller)
-- returns: nothing
-- by hand: CREATE TEMP TABLE incoming AS FROM batches LIMIT 0; then .read sql/steps/insert_batches.sql
INSERT INTO batches BY NAME SELECT * FROM incoming;
