-- put_fact: set one fact about a training.
-- inputs:  key VARCHAR, value VARCHAR
-- reads:   facts
-- returns: nothing
-- by hand: duckdb RUN/state.duckdb -cmd "SET VARIABLE key='note'; SET VARIABLE value='mine'" -f sql/steps/put_fact.sql
INSERT OR REPLACE INTO facts VALUES (getvariable('key'), getvariable('value'));
