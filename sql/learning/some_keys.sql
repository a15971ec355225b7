-- some_keys: the key of every step-th row of each file, ascending.
-- inputs:  files VARCHAR[], step BIGINT
-- reads:   the part files of neighbours (columns key = left << 32 | right, and n)
-- returns: key
-- by hand: it needs the files of a training that is learning superwords
SELECT key
FROM read_parquet(getvariable('files'), file_row_number = true, hive_partitioning = false)
WHERE file_row_number % getvariable('step') = 0
ORDER BY key;
