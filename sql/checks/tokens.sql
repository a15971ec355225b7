-- tokens: the table against the alphabet, the stop words and what the events made.
-- inputs:
-- reads:   tokens, recounted_tokens (one row = id, bytes, kind, born, died, length; registered by the caller)
-- returns: id, problem, bytes, kind, born, died: one row for every token that is missing, extra or different
-- by hand: needs the event log; run `streambpe check RUN`
WITH recounted AS (
    SELECT id, bytes, kind, born, died FROM recounted_tokens
)
(
    SELECT id, 'in the table, not in the log' AS problem, bytes, kind, born, died
    FROM (SELECT id, bytes, kind, born, died FROM tokens EXCEPT FROM recounted)
)
UNION ALL
(
    SELECT id, 'in the log, not in the table' AS problem, bytes, kind, born, died
    FROM (FROM recounted EXCEPT SELECT id, bytes, kind, born, died FROM tokens)
)
ORDER BY id, problem;
