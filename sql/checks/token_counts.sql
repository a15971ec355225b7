-- token_counts: the table against the chunks, encoded again one by one.
-- inputs:
-- reads:   token_counts, recounted_token_counts (one row = id, n, alone; registered by the caller)
-- returns: id, problem, n, alone: one row for every token that is missing, extra or counted otherwise
-- by hand: needs the recount; run `streambpe check RUN`
(
    SELECT id, 'in the table, not in the chunks' AS problem, n, alone
    FROM (SELECT id, n, alone FROM token_counts EXCEPT FROM recounted_token_counts)
)
UNION ALL
(
    SELECT id, 'in the chunks, not in the table' AS problem, n, alone
    FROM (FROM recounted_token_counts EXCEPT SELECT id, n, alone FROM token_counts)
)
ORDER BY id, problem;
