-- insert_superword_chunks: append rows that come from Python.
-- inputs:
-- reads:   incoming (one row = the columns of superword_chunks; registered by the caller)
-- returns: nothing
-- by hand: CREATE TEMP TABLE incoming AS FROM superword_chunks LIMIT 0; then .read sql/steps/insert_superword_chunks.sql
INSERT INTO superword_chunks BY NAME SELECT * FROM incoming;
