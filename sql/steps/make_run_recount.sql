-- make_run_recount: a temporary table for runs counted again, part after part.
-- inputs:
-- reads:   nothing
-- returns: nothing
-- by hand: needs the stored documents; run `streambpe check RUN`
CREATE OR REPLACE TEMP TABLE recounted_runs (chunks VARCHAR[], n BIGINT);
