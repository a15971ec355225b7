-- clear_counts: empty the counted tables before they are filled again in the same transaction.
-- inputs:
-- reads:   chunk_counts, sources, source_groups
-- returns: nothing
-- by hand: duckdb RUN/state.duckdb -f sql/steps/clear_counts.sql   (then `streambpe count RUN` fills them again)
TRUNCATE chunk_counts;
TRUNCATE sources;
TRUNCATE source_groups;
