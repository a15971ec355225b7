-- list_passes: how many events every pass learned, and how long it took.
-- inputs:
-- reads:   batches
-- returns: events, seconds; in the order of the passes
-- by hand: duckdb -readonly RUN/state.duckdb -f sql/steps/list_passes.sql
SELECT events, seconds FROM batches ORDER BY batch;
