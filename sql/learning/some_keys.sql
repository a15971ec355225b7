-- some_keys: the keys of every `step`-th row of each file, ascending, from which ranges of keys are made.
-- inputs:  files VARCHAR[], step BIGINT
-- reads:   the files of neighbours that tasks wrote (columns key = left << 32 | right, and n)
-- returns: key
-- by hand: it needs the files of a training that is learning superwords
SELECT key
FROM read_parquet(getvariable('files'), file_row_number = true, hive_partitioning = false)
WHERE file_row_number % getvariable('step') = 0 AND key >= 0
ORDER BY key;
