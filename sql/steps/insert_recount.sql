-- insert_recount: append a block of recounted chunks.
-- inputs:
-- reads:   incoming (one row = chunk, n; registered by the caller)
-- returns: nothing
-- by hand: CREATE TEMP TABLE incoming AS FROM 'RUN/counts/merged-00003.parquet'; then .read sql/steps/insert_recount.sql
INSERT INTO recount SELECT chunk, n FROM incoming;
