-- sum_left_out: how many chunks there are, and how many of them the cut-off of a training leaves out.
-- inputs:
-- reads:   weighed_chunks, left_out
-- returns: chunks, occurrences, chunks left out, their occurrences
-- by hand: duckdb -readonly RUN/state.duckdb -f sql/steps/sum_left_out.sql
SELECT
    (SELECT count(*) FROM weighed_chunks),
    (SELECT coalesce(sum(n), 0)::BIGINT FROM weighed_chunks),
    count(*),
    coalesce(sum(n), 0)::BIGINT
FROM left_out
WHERE reason = 'cut-off';
