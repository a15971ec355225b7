-- sum_runs: the distinct runs of all files whose `by` is in a range; `by` is a number that spreads runs evenly.
-- inputs:  files VARCHAR[], low BIGINT, high BIGINT
-- reads:   the files of runs that tasks wrote (columns run: its symbols as 32-bit integers, by, n)
-- returns: run, n; ordered by `by`, then by the runs' symbols
-- by hand: it needs the files of a training that is learning superwords
SELECT run, sum(n)::BIGINT AS n
FROM read_parquet(getvariable('files'), hive_partitioning = false)
WHERE "by" BETWEEN getvariable('low') AND getvariable('high')
GROUP BY "by", run
ORDER BY "by", run;
