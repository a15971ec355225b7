-- 0005_to_0006: sources get the number of lines that were left out; until now a bad line ended a count.
-- inputs:
-- reads:   sources
-- returns: nothing
-- by hand: duckdb RUN/state.duckdb -f sql/migrations/0005_to_0006.sql   (once; streambpe does it by itself)
ALTER TABLE sources ADD COLUMN IF NOT EXISTS bad_lines BIGINT DEFAULT 0;
