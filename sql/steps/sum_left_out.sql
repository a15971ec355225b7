-- sum_left_out: what a cut-off leaves out of all chunks; stop words are no part of it.
-- inputs:  freq_cutoff BIGINT
-- reads:   chunk_counts, tokens
-- returns: chunks, occurrences, chunks left out, their occurrences
-- by hand: duckdb -readonly RUN/state.duckdb -cmd "SET VARIABLE freq_cutoff=10" -f sql/steps/sum_left_out.sql
SELECT
    count(*),
    coalesce(sum(n), 0)::BIGINT,
    count(*) FILTER (below),
    coalesce(sum(n) FILTER (below), 0)::BIGINT
FROM (
    SELECT
        n,
        n < getvariable('freq_cutoff')
        AND encode(chunk) NOT IN (SELECT bytes FROM tokens WHERE kind = 'stop word') AS below
    FROM chunk_counts
);
