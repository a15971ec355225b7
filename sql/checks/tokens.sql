-- tokens: compare the table with the alphabet, the stop words, and the tokens that the events made.
-- inputs:
-- reads:   tokens, logged_events, logged_tokens (columns id, bytes, kind, born; registered by the caller)
-- returns: id, problem, bytes, kind, born, died: one row for each token that is missing, extra, or different
-- by hand: it needs the event log, so run `streambpe check RUN`
WITH deaths AS (
    SELECT id, max(seq) AS died FROM logged_events GROUP BY id HAVING max(seq) FILTER (op = 'delete') = max(seq)
),
logged AS (
    SELECT t.id, t.bytes, t.kind, t.born, d.died FROM logged_tokens AS t LEFT JOIN deaths AS d ON d.id = t.id
)
(
    SELECT id, 'in the table, not in the log' AS problem, bytes, kind, born, died
    FROM (SELECT id, bytes, kind, born, died FROM tokens EXCEPT FROM logged)
)
UNION ALL
(
    SELECT id, 'in the log, not in the table' AS problem, bytes, kind, born, died
    FROM (FROM logged EXCEPT SELECT id, bytes, kind, born, died FROM tokens)
)
ORDER BY id, problem;
