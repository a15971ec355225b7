-- get_words_ahead: the merges of phase one that found no place in the model, in the order they were learned.
-- inputs:
-- reads:   events
-- returns: left_id, right_id, id, n
-- by hand: duckdb -readonly RUN/state.duckdb -f sql/steps/get_words_ahead.sql
SELECT left_id, right_id, id, n FROM events WHERE seq IS NULL ORDER BY rowid;
