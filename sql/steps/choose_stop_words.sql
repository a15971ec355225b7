-- choose_stop_words: the chunks of several characters among the 2 x stop_list most frequent, at most stop_list of them.
-- inputs:  stop_list BIGINT
-- reads:   weighed_chunks
-- returns: chunk, n; highest count first, and chunks with equal counts by their bytes
-- by hand: duckdb -readonly RUN/state.duckdb -cmd "SET VARIABLE stop_list=9" -f sql/steps/choose_stop_words.sql
WITH most_frequent AS (
    SELECT chunk, n FROM weighed_chunks ORDER BY n DESC, chunk LIMIT (2 * getvariable('stop_list'))
)
SELECT chunk, n FROM most_frequent WHERE length(chunk) > 1 ORDER BY n DESC, chunk LIMIT (getvariable('stop_list'));
