-- insert_adjacency_recount: add one part's neighbours to those counted again.
-- inputs:
-- reads:   incoming (left_chunk, right_chunk, n; registered by the caller)
-- returns: nothing
-- by hand: needs the stored documents; run `streambpe check RUN`
INSERT INTO recounted_adjacency BY NAME SELECT * FROM incoming;
