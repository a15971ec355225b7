-- get_source_groups: what was counted in each group of sources.
-- inputs:
-- reads:   source_groups
-- returns: group_name, documents, bytes, chunks, sha256; by name
-- by hand: duckdb -readonly RUN/state.duckdb -f sql/steps/get_source_groups.sql
SELECT group_name, documents, bytes, chunks, sha256 FROM source_groups ORDER BY group_name;
