-- has_weighted_counts: whether the training's weighted counts are in their table.
-- inputs:
-- reads:   weighted_counts
-- returns: one BOOLEAN
-- by hand: duckdb -readonly RUN/state.duckdb -f sql/steps/has_weighted_counts.sql
SELECT EXISTS (FROM weighted_counts);
