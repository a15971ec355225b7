-- insert_weighted_counts: append rows that come from Python.
-- inputs:
-- reads:   incoming (one row = chunk VARCHAR, n BIGINT; registered by the caller)
-- returns: nothing
-- by hand: CREATE TEMP TABLE incoming AS FROM chunk_counts LIMIT 0; then .read sql/steps/insert_weighted_counts.sql
INSERT INTO weighted_counts SELECT chunk, n FROM incoming;
