-- list_trainings: the schemas that hold a training.
-- inputs:
-- reads:   the catalogue
-- returns: name, in order
-- by hand: duckdb -readonly RUN/state.duckdb -f sql/steps/list_trainings.sql
SELECT schema_name FROM duckdb_tables() WHERE table_name = 'facts' AND NOT temporary ORDER BY schema_name;
