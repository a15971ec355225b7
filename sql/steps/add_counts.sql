-- add_counts: what chunk_counts holds of a range of chunks, and what new parts hold of it, added up.
-- inputs:  first_chunk VARCHAR, end_chunk VARCHAR (the range ends before it; NULL: it goes to the end)
-- reads:   chunk_counts, incoming (one row = chunk, n; the range of each part; registered by the caller)
-- returns: chunk, n; in the order of the chunks' bytes
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
