-- clear_superword_adjacency: empty the table before it is filled anew in the same transaction.
-- inputs:
-- reads:   superword_adjacency
-- returns: nothing
-- by hand: duckdb RUN/state.duckdb -f sql/steps/clear_superword_adjacency.sql
TRUNCATE superword_adjacency;
