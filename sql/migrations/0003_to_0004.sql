-- 0003_to_0004: which parts the tables hold is told by their stretches in table sources, no longer by names in table run.
-- inputs:
-- reads:   run, source_groups (without its totals a run with groups is filled again, with the counts of each group)
-- returns: nothing
-- by hand: duckdb RUN/state.duckdb -f sql/migrations/0003_to_0004.sql   (once; streambpe does it by itself)
DELETE FROM run WHERE key = 'folded' OR (key = 'corpus' AND EXISTS (FROM source_groups));
