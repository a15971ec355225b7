-- sum_neighbours: the counts of all groups added up, for a range of keys; in their order.
-- inputs:  files VARCHAR[], low BIGINT, high BIGINT
-- reads:   part files of neighbours (key = left << 32 | right, n)
-- returns: nothing; rows in neighbours
-- by hand: duckdb learning.duckdb, on a copy
INSERT INTO neighbours
SELECT (key >> 32)::INTEGER, (key & 4294967295)::INTEGER, sum(n)::BIGINT
FROM read_parquet(getvariable('files'), hive_partitioning = false)
WHERE key BETWEEN getvariable('low') AND getvariable('high')
GROUP BY key
ORDER BY key;
