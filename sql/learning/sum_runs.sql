-- sum_runs: the distinct runs of all files, for a range of the number that spreads them evenly.
-- inputs:  files VARCHAR[], low BIGINT, high BIGINT
-- reads:   the part files of runs (columns run, its symbols as 32-bit integers, by, and n)
-- returns: run, n; ordered by that number, and for equal numbers by their symbols
-- by hand: it needs the files of a training that is learning superwords
SELECT run, sum(n)::BIGINT AS n
FROM read_parquet(getvariable('files'), hive_partitioning = false)
WHERE "by" BETWEEN getvariable('low') AND getvariable('high')
GROUP BY "by", run
ORDER BY "by", run;
