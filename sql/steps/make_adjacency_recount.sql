-- make_adjacency_recount: a temporary table for neighbours counted again, part after part.
-- inputs:
-- reads:   nothing
-- returns: nothing
-- by hand: needs the stored documents; run `streambpe check RUN`
CREATE OR REPLACE TEMP TABLE recounted_adjacency (left_chunk VARCHAR, right_chunk VARCHAR, n BIGINT);
