-- sum_neighbours: add up the counts of all files for a range of keys.
-- inputs:  files VARCHAR[], low BIGINT, high BIGINT
-- reads:   the files of neighbours that tasks wrote (columns key = left << 32 | right, and n)
-- returns: key, n; in the order of the keys
-- by hand: it needs the files of a training that is learning superwords
SELECT key, sum(n)::BIGINT AS n
FROM read_parquet(getvariable('files'), hive_partitioning = false)
WHERE key BETWEEN getvariable('low') AND getvariable('high')
GROUP BY key
ORDER BY key;
