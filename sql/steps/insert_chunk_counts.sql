-- insert_chunk_counts: append a block of chunks that comes from Python, in byte order.
-- inputs:
-- reads:   incoming (one row = chunk, n; registered by the caller)
-- returns: nothing
-- by hand: CREATE TABLE incoming AS FROM 'export.parquet'; then .read sql/steps/insert_chunk_counts.sql
INSERT INTO chunk_counts SELECT chunk, n FROM incoming;
