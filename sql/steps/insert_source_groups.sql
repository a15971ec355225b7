-- insert_source_groups: append rows that come from Python.
-- inputs:
-- reads:   incoming (one row = the columns of source_groups; registered by the caller)
-- returns: nothing
-- by hand: CREATE TEMP TABLE incoming AS FROM source_groups LIMIT 0; then .read sql/steps/insert_source_groups.sql
INSERT INTO source_groups BY NAME SELECT * FROM incoming;
