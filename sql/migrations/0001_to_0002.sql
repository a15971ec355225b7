-- 0001_to_0002: sources get the group they belong to; what was counted before belongs to none.
-- inputs:
-- reads:   sources
-- returns: nothing
-- by hand: duckdb RUN/state.duckdb -f sql/migrations/0001_to_0002.sql   (once; streambpe does it by itself)
ALTER TABLE sources ADD COLUMN IF NOT EXISTS group_name VARCHAR DEFAULT '';
