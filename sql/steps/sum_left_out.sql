-- sum_left_out: how many chunks there are, and how many of them the cut-off of a training leaves out.
-- inputs:
-- reads:   chunk_counts, left_out
-- returns: chunks, occurrences, chunks left out, their occurrences
-- by hand: duckdb -readonly RUN/state.duckdb -f sql/steps/sum_left_out.sql
SELECT
    (SELECT count(*) FROM chunk_counts),
    (SELECT coalesce(sum(n), 0)::BIGINT FROM chunk_counts),
    count(*),
    coalesce(sum(n), 0)::BIGINT
FROM left_out
WHERE reason = 'cut-off';
