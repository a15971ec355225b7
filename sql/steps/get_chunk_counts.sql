-- get_chunk_counts: every distinct chunk and how often it occurs, in no order.
-- inputs:
-- reads:   chunk_counts
-- returns: chunk VARCHAR, n BIGINT
-- by hand: duckdb RUN/state.duckdb -f sql/steps/get_chunk_counts.sql
SELECT chunk, n
FROM chunk_counts;
