-- insert_pair_recount: append a block of pairs counted again.
-- inputs:
-- reads:   incoming (one row = left_id, right_id, n; registered by the caller)
-- returns: nothing
-- by hand: CREATE TEMP TABLE incoming AS FROM pair_counts LIMIT 0; then .read sql/steps/insert_pair_recount.sql
INSERT INTO recounted_pairs SELECT left_id, right_id, n FROM incoming;
