-- sum_left_out: how many chunks there are, and how many of them the cut-off of a training leaves out.
-- inputs:  freq_cutoff BIGINT
-- reads:   weighed_chunks, stop_words; not view left_out, which would join all chunks with all chunks
-- returns: chunks, occurrences, chunks left out, their occurrences
-- by hand: duckdb -readonly RUN/state.duckdb -cmd "SET VARIABLE freq_cutoff=2" -f sql/steps/sum_left_out.sql
WITH told AS (
    SELECT n, n < getvariable('freq_cutoff') AND chunk NOT IN (SELECT chunk FROM stop_words) AS below
    FROM weighed_chunks
)
SELECT
    count(*),
    coalesce(sum(n), 0)::BIGINT,
    count(*) FILTER (below),
    coalesce(sum(n) FILTER (below), 0)::BIGINT
FROM told;
