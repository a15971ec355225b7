-- count_stop_words: how often the stop words of a model that is extended stand in the counts.
-- inputs:
-- reads:   incoming (one row = chunk; registered by the caller), weighed_chunks
-- returns: chunk, n; those that never stand there are left out
-- by hand: CREATE TEMP TABLE incoming AS SELECT chunk FROM chunk_counts LIMIT 9; then .read this file
SELECT w.chunk, w.n FROM weighed_chunks AS w JOIN incoming AS i ON i.chunk = w.chunk ORDER BY w.chunk;
