-- chunk_counts: the table against a recount from the committed parts.
-- inputs:
-- reads:   chunk_counts, recount (one row = chunk, n; all committed parts together; steps/make_recount)
-- returns: chunk, in_table, recounted: one row for every chunk on which they differ
-- by hand: CREATE TEMP TABLE recount AS SELECT chunk, sum(n)::BIGINT AS n FROM 'RUN/counts/*.parquet' GROUP BY chunk; then .read it
WITH totals AS (
    SELECT chunk, sum(n)::BIGINT AS n, count(*) AS copies FROM chunk_counts GROUP BY chunk
)
SELECT coalesce(totals.chunk, recount.chunk) AS chunk, totals.n AS in_table, recount.n AS recounted
FROM totals
FULL JOIN recount ON totals.chunk = recount.chunk
WHERE totals.n IS DISTINCT FROM recount.n OR totals.copies > 1
ORDER BY 1;
