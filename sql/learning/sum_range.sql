-- sum_range: as sum_neighbours, for a worker: it has no table to put them into.
-- inputs:  files VARCHAR[], low BIGINT, high BIGINT
-- reads:   part files of neighbours (key = left << 32 | right, n)
-- returns: key, n; by key
-- by hand: needs the files of a training that is learning superwords
SELECT key, sum(n)::BIGINT AS n
FROM read_parquet(getvariable('files'), hive_partitioning = false)
WHERE key BETWEEN getvariable('low') AND getvariable('high')
GROUP BY key
ORDER BY key;
