-- get_words_ahead: the merges and deletions of phase one that found no place in the model, in the order they were learned.
-- inputs:
-- reads:   events
-- returns: op, left_id, right_id, id, n, parts
-- by hand: duckdb -readonly RUN/state.duckdb -f sql/steps/get_words_ahead.sql
SELECT op, left_id, right_id, id, n, parts FROM events WHERE seq IS NULL ORDER BY rowid;
