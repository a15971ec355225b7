-- put_run: set one fact about the run.
-- inputs:  key VARCHAR, value VARCHAR
-- reads:   run
-- returns: nothing
-- by hand: duckdb RUN/state.duckdb -cmd "SET VARIABLE key='note'; SET VARIABLE value='mine'" -f sql/steps/put_run.sql
INSERT OR REPLACE INTO run VALUES (getvariable('key'), getvariable('value'));
