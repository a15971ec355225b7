-- insert_superword_run_numbers: append rows that come from Python.
-- inputs:
-- reads:   incoming (one row = the columns of superword_run_numbers; registered by the caller)
-- returns: nothing
-- by hand: CREATE TEMP TABLE incoming AS FROM superword_run_numbers LIMIT 0; then .read sql/steps/insert_superword_run_numbers.sql
INSERT INTO superword_run_numbers BY NAME SELECT * FROM incoming;
