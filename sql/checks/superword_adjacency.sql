-- superword_adjacency: what the view shows against the neighbours that stand in the stored documents.
-- inputs:  adjacency_floor BIGINT
-- reads:   superword_adjacency, recounted_adjacency, recounted_chunks (steps/make_adjacency_recount)
-- returns: left_chunk, right_chunk, in_table, recounted: one row for every pair on which they differ
-- by hand: needs the stored documents; run `streambpe check RUN`
WITH totals AS (
    SELECT left_chunk, right_chunk, sum(n)::BIGINT AS n, count(*) AS copies FROM superword_adjacency GROUP BY ALL
),
kept AS (
    SELECT left_number, right_number, sum(n)::BIGINT AS n FROM recounted_adjacency GROUP BY ALL
    HAVING sum(n) >= getvariable('adjacency_floor')
),
recounted AS (
    SELECT a.chunk AS left_chunk, b.chunk AS right_chunk, kept.n
    FROM kept
    JOIN recounted_chunks AS a ON a.number = kept.left_number
    JOIN recounted_chunks AS b ON b.number = kept.right_number
)
SELECT
    coalesce(totals.left_chunk, recounted.left_chunk)   AS left_chunk,
    coalesce(totals.right_chunk, recounted.right_chunk) AS right_chunk,
    totals.n                                            AS in_table,
    recounted.n                                         AS recounted
FROM totals
FULL JOIN recounted ON totals.left_chunk = recounted.left_chunk AND totals.right_chunk = recounted.right_chunk
WHERE totals.n IS DISTINCT FROM recounted.n OR totals.copies > 1
ORDER BY 1, 2;
