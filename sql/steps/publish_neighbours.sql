-- publish_neighbours: fill tables superword_chunks and superword_neighbours from the neighbours that were added up.
-- inputs:  neighbours VARCHAR, adjacency_floor BIGINT
-- reads:   the file of neighbours (columns key = left << 32 | right, and n), incoming (columns symbol and chunk, of all
--          chunks that may join; registered by the caller)
-- returns: nothing; it adds rows to superword_chunks and superword_neighbours, ordered by their numbers
-- by hand: it needs the files of a training that is learning superwords
INSERT INTO superword_chunks
SELECT row_number() OVER (ORDER BY chunk), chunk
FROM incoming
WHERE symbol IN (
    SELECT unnest([key >> 32, key & 4294967295])
    FROM read_parquet(getvariable('neighbours'), hive_partitioning = false)
    WHERE n >= getvariable('adjacency_floor')
)
ORDER BY ALL;
INSERT INTO superword_neighbours
WITH numbered AS (
    SELECT s.symbol, c.number FROM incoming AS s JOIN superword_chunks AS c ON c.chunk = s.chunk
)
SELECT l.number, r.number, a.n
FROM read_parquet(getvariable('neighbours'), hive_partitioning = false) AS a
JOIN numbered AS l ON l.symbol = a.key >> 32
JOIN numbered AS r ON r.symbol = a.key & 4294967295
WHERE a.n >= getvariable('adjacency_floor')
ORDER BY ALL;
