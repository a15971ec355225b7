-- sum_runs: the distinct runs of all groups, for a range of the number that spreads them evenly.
-- inputs:  files VARCHAR[], low BIGINT, high BIGINT
-- reads:   part files of runs (run: its symbols as 32-bit integers, by, n)
-- returns: run, n; by that number, of equal ones by their symbols
-- by hand: needs the files of a training that is learning superwords
SELECT run, sum(n)::BIGINT AS n
FROM read_parquet(getvariable('files'), hive_partitioning = false)
WHERE "by" BETWEEN getvariable('low') AND getvariable('high')
GROUP BY "by", run
ORDER BY "by", run;
