-- clear_superword_runs: empty the tables of runs before they are filled anew in the same transaction.
-- inputs:
-- reads:   superword_chunks, superword_run_numbers
-- returns: nothing
-- by hand: duckdb RUN/state.duckdb -f sql/steps/clear_superword_runs.sql
TRUNCATE superword_run_numbers;
TRUNCATE superword_chunks;
