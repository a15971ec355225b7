-- insert_tokens: append rows that come from Python.
-- inputs:
-- reads:   incoming (one row = the columns of tokens; registered by the caller)
-- returns: nothing
-- by hand: CREATE TEMP TABLE incoming AS FROM tokens LIMIT 0; then .read sql/steps/insert_tokens.sql
INSERT INTO tokens BY NAME SELECT * FROM incoming;
