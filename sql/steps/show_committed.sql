-- show_committed: make a view chunk_counts of the counts so far: those in all committed parts.
-- inputs:  part_files VARCHAR[]
-- reads:   the parts (at least one)
-- returns: nothing; the view is made in the first schema of the search path
-- by hand: streambpe sql RUN chunk_counts, while RUN is counting
CREATE OR REPLACE VIEW chunk_counts AS
SELECT chunk, sum(n)::BIGINT AS n FROM read_parquet(getvariable('part_files'), hive_partitioning = false) GROUP BY chunk;
