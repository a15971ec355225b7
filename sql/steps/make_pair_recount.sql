-- make_pair_recount: an empty table for pairs that are counted again, private to this connection.
-- inputs:
-- reads:   nothing
-- returns: nothing
-- by hand: .read sql/steps/make_pair_recount.sql
CREATE OR REPLACE TEMP TABLE recounted_pairs (left_id BIGINT NOT NULL, right_id BIGINT NOT NULL, n BIGINT NOT NULL);
