-- list_stop_words: the stop words of a training and how often they occur.
-- inputs:
-- reads:   left_out
-- returns: chunk, n; in the order of their ids
-- by hand: duckdb -readonly RUN/state.duckdb -f sql/steps/list_stop_words.sql
SELECT chunk, n FROM left_out WHERE reason = 'stop list' ORDER BY id;
