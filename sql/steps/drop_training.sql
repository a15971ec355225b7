-- drop_training: remove the tables of a training, to be made anew in the same transaction.
-- inputs:
-- reads:   nothing
-- returns: nothing
-- by hand: duckdb RUN/state.duckdb -f sql/steps/drop_training.sql   (-cmd "SET schema='NAME'" for another than main)
DROP TABLE IF EXISTS events;
DROP TABLE IF EXISTS tokens;
DROP TABLE IF EXISTS pair_counts;
DROP TABLE IF EXISTS token_counts;
DROP TABLE IF EXISTS weighted_counts;
DROP TABLE IF EXISTS superword_adjacency;
DROP TABLE IF EXISTS superword_chunks;
DROP TABLE IF EXISTS superword_run_numbers;
DROP TABLE IF EXISTS batches;
DROP TABLE IF EXISTS vetoed;
DROP TABLE IF EXISTS facts;
