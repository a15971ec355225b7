-- get_run: all facts about the run.
-- inputs:
-- reads:   run
-- returns: key, value; by key
-- by hand: duckdb -readonly RUN/state.duckdb -f sql/steps/get_run.sql
SELECT key, value FROM run ORDER BY key;
