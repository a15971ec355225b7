-- list_adjacency_recount: the neighbours counted again that are not too rare to stand in a run.
-- inputs:  adjacency_floor BIGINT
-- reads:   recounted_adjacency (steps/make_adjacency_recount)
-- returns: left_number, right_number
-- by hand: needs the stored documents; run `streambpe check RUN`
SELECT left_number, right_number FROM recounted_adjacency GROUP BY ALL HAVING sum(n) >= getvariable('adjacency_floor');
