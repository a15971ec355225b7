-- some_keys: the keys of one row in so many of each file, ascending.
-- inputs:  files VARCHAR[], step BIGINT
-- reads:   part files of neighbours (key = left << 32 | right, n)
-- returns: key
-- by hand: needs the files of a training that is learning superwords
SELECT key
FROM read_parquet(getvariable('files'), file_row_number = true, hive_partitioning = false)
WHERE file_row_number % getvariable('step') = 0
ORDER BY key;
