-- insert_superword_adjacency: append rows that come from Python.
-- inputs:
-- reads:   incoming (one row = the columns of superword_adjacency; registered by the caller)
-- returns: nothing
-- by hand: CREATE TEMP TABLE incoming AS FROM superword_adjacency LIMIT 0; then .read sql/steps/insert_superword_adjacency.sql
INSERT INTO superword_adjacency BY NAME SELECT * FROM incoming;
