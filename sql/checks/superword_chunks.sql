-- superword_chunks: the table against the chunks of the neighbours that stand in the stored documents.
-- inputs:  adjacency_floor BIGINT
-- reads:   superword_chunks, recounted_adjacency, recounted_chunks (steps/make_adjacency_recount)
-- returns: number, in_table, recounted: one row for every number on which they differ
-- by hand: needs the stored documents; run `streambpe check RUN`
WITH kept AS (
    SELECT left_number, right_number FROM recounted_adjacency GROUP BY ALL
    HAVING sum(n) >= getvariable('adjacency_floor')
),
recounted AS (
    SELECT row_number() OVER (ORDER BY chunk) AS number, chunk
    FROM recounted_chunks
    WHERE number IN (SELECT left_number FROM kept UNION SELECT right_number FROM kept)
)
SELECT coalesce(c.number, r.number) AS number, c.chunk AS in_table, r.chunk AS recounted
FROM superword_chunks AS c
FULL JOIN recounted AS r ON r.number = c.number
WHERE c.chunk IS DISTINCT FROM r.chunk
ORDER BY 1;
