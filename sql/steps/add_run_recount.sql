-- add_run_recount: add one part's runs to those counted again.
-- inputs:
-- reads:   incoming (one row = the chunks of a run, by number; registered by the caller)
-- returns: nothing
-- by hand: needs the stored documents; run `streambpe check RUN`
INSERT INTO recounted_runs SELECT numbers, count(*) FROM incoming GROUP BY numbers;
