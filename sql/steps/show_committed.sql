-- show_committed: view chunk_counts of what is counted so far: the counts in the tables and in the parts behind them.
-- inputs:  held VARCHAR, part_files VARCHAR[]
-- reads:   the table of counts that `held` names (with its database and schema), the parts (at least one); the view is made in the first schema of the search path
-- returns: nothing
-- by hand: streambpe sql RUN chunk_counts, while RUN is counting
CREATE OR REPLACE VIEW chunk_counts AS
SELECT chunk, sum(n)::BIGINT AS n
FROM (
    SELECT chunk, n FROM query_table(getvariable('held'))
    UNION ALL
    SELECT chunk, n FROM read_parquet(getvariable('part_files'), hive_partitioning = false)
)
GROUP BY chunk;
