-- get_facts: all facts about a training.
-- inputs:
-- reads:   facts
-- returns: key, value; by key
-- by hand: duckdb -readonly RUN/state.duckdb -f sql/steps/get_facts.sql
SELECT key, value FROM facts ORDER BY key;
