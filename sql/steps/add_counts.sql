-- add_counts: add the counts in new parts to those in chunk_counts, for a range of chunks.
-- inputs:  first_chunk VARCHAR, end_chunk VARCHAR (not included; NULL: to the end)
-- reads:   chunk_counts, incoming (columns chunk and n, the same range of each part; registered by the caller)
-- returns: chunk, n; ordered by the chunks' bytes
-- by hand: CREATE TEMP TABLE incoming AS SELECT chunk, n FROM 'RUN/counts/*.parquet'; SET VARIABLE first_chunk=''; then .read it
SELECT chunk, sum(n)::BIGINT AS n
FROM (
    SELECT chunk, n FROM incoming
    UNION ALL
    SELECT chunk, n
    FROM chunk_counts
    WHERE chunk >= getvariable('first_chunk') AND (getvariable('end_chunk') IS NULL OR chunk < getvariable('end_chunk'))
)
GROUP BY chunk
ORDER BY chunk;
