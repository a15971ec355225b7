-- list_stop_words: the stop words of a training and how often they occur.
-- inputs:
-- reads:   tokens, chunk_counts
-- returns: chunk, n; in the order of their ids
-- by hand: duckdb -readonly RUN/state.duckdb -f sql/steps/list_stop_words.sql
SELECT c.chunk, c.n
FROM tokens AS t
JOIN chunk_counts AS c ON encode(c.chunk) = t.bytes
WHERE t.kind = 'stop word'
ORDER BY t.id;
