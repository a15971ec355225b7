-- insert_pair_counts: append rows that come from Python.
-- inputs:
-- reads:   incoming (one row = the columns of pair_counts; registered by the caller)
-- returns: nothing
-- by hand: CREATE TEMP TABLE incoming AS FROM pair_counts LIMIT 0; then .read sql/steps/insert_pair_counts.sql
INSERT INTO pair_counts BY NAME SELECT * FROM incoming;
