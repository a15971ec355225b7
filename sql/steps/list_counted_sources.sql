-- list_counted_sources: every input that the tables hold counts of, also in part.
-- inputs:
-- reads:   sources
-- returns: path, kind, text_column, group_name; by path
-- by hand: duckdb -readonly RUN/state.duckdb -f sql/steps/list_counted_sources.sql
SELECT path, any_value(kind) AS kind, any_value(text_column) AS text_column, any_value(group_name) AS group_name
FROM sources
GROUP BY path
ORDER BY path;
