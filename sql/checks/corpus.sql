-- corpus: compare the totals recorded in the run with the tables.
-- inputs:  sha256 VARCHAR
-- reads:   run, sources, chunk_counts (sha256 is the digest of a recount)
-- returns: fact, stated, found: one row for each total that is wrong
-- by hand: duckdb -readonly RUN/state.duckdb -cmd "SET VARIABLE sha256='...'" -f sql/checks/corpus.sql
WITH stated AS (
    SELECT value::JSON AS corpus FROM run WHERE key = 'corpus'
),
found AS (
    SELECT 'distinct' AS fact, count(*)::VARCHAR AS value FROM chunk_counts
    UNION ALL SELECT 'chunks', coalesce(sum(n), 0)::VARCHAR FROM chunk_counts
    UNION ALL SELECT 'bytes', coalesce(sum(n::HUGEINT * octet_length(encode(chunk))), 0)::VARCHAR FROM chunk_counts
    UNION ALL SELECT 'documents', coalesce(sum(documents), 0)::VARCHAR FROM sources
    UNION ALL SELECT 'sha256', getvariable('sha256')
)
SELECT fact, corpus ->> fact AS stated, found.value AS found
FROM found LEFT JOIN stated ON true  -- a run that lacks its totals differs in all of them
WHERE (corpus ->> fact) IS DISTINCT FROM found.value
ORDER BY fact;
