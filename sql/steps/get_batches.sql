-- get_batches: the passes of a training.
-- inputs:
-- reads:   batches
-- returns: the columns of batches, in the order they have in the schema; by batch
-- by hand: duckdb -readonly RUN/state.duckdb -f sql/steps/get_batches.sql
SELECT
    batch, first_seq, events, seconds, mode, candidates, occurrences, executed, positions,
    rounds, stopped_by, refills, spills, switched, hot_pairs, pair_floor, places, memory_bytes
FROM batches
ORDER BY batch;
