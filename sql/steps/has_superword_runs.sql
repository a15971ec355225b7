-- has_superword_runs: whether the training in use has rows in superword_run_numbers; no row without the table.
-- inputs:
-- reads:   the catalogue
-- returns: there
-- by hand: duckdb -readonly RUN/state.duckdb -f sql/steps/has_superword_runs.sql
SELECT estimated_size > 0 AS there
FROM duckdb_tables()
WHERE table_name = 'superword_run_numbers' AND schema_name = current_schema();
