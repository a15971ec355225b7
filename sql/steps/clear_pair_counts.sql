-- clear_pair_counts: empty the table before it is filled anew in the same transaction.
-- inputs:
-- reads:   pair_counts
-- returns: nothing
-- by hand: duckdb RUN/state.duckdb -f sql/steps/clear_pair_counts.sql
TRUNCATE pair_counts;
