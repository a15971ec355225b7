-- chunk_counts: compare the table with a recount of the committed parts.
-- inputs:
-- reads:   chunk_counts, recount (columns chunk and n, summed over all committed parts; make_recount)
-- returns: chunk, in_table, recounted: one row for each chunk whose counts differ
-- by hand: CREATE TEMP TABLE recount AS SELECT chunk, sum(n)::BIGINT AS n FROM 'RUN/counts/*.parquet' GROUP BY chunk; then .read it
WITH totals AS (
    SELECT chunk, sum(n)::BIGINT AS n, count(*) AS copies FROM chunk_counts GROUP BY chunk
)
SELECT coalesce(totals.chunk, recount.chunk) AS chunk, totals.n AS in_table, recount.n AS recounted
FROM totals
FULL JOIN recount ON totals.chunk = recount.chunk
WHERE totals.n IS DISTINCT FROM recount.n OR totals.copies > 1
ORDER BY 1;
