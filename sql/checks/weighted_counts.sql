-- weighted_counts: the table against the counts of the groups, weighted again.
-- inputs:
-- reads:   weighted_counts, recount (one row = chunk, n; filled by the caller)
-- returns: chunk, n in the table, n counted again: one row for every chunk that differs
-- by hand: needs the parts' own records; run `streambpe check RUN`
SELECT coalesce(w.chunk, r.chunk), w.n, r.n
FROM weighted_counts AS w
FULL JOIN recount AS r ON w.chunk = r.chunk
WHERE w.n IS DISTINCT FROM r.n
ORDER BY ALL;
