-- clear_token_counts: empty the table: what it holds is out of date while a training goes on.
-- inputs:
-- reads:   nothing
-- returns: nothing
-- by hand: duckdb RUN/state.duckdb -f sql/steps/clear_token_counts.sql
DELETE FROM token_counts;
