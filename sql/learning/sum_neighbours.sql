-- sum_neighbours: add up the counts of all files for a range of keys, in the order of the keys.
-- inputs:  files VARCHAR[], low BIGINT, high BIGINT
-- reads:   the files of neighbours that tasks wrote (columns key = left << 32 | right, and n)
-- returns: nothing; it adds rows to neighbours
-- by hand: duckdb COPY-OF-learning.duckdb
INSERT INTO neighbours
SELECT (key >> 32)::INTEGER, (key & 4294967295)::INTEGER, sum(n)::BIGINT
FROM read_parquet(getvariable('files'), hive_partitioning = false)
WHERE key BETWEEN getvariable('low') AND getvariable('high')
GROUP BY key
ORDER BY key;
