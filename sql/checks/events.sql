-- events: compare the table with the event log.
-- inputs:
-- reads:   events, logged_events (columns seq, op, left_id, right_id, id, n, parts; registered by the caller)
-- rows whose seq is NULL are not in the log: they are merges of words that the vocabulary had no room for
-- returns: seq, problem, op, left_id, right_id, id, n: one row for each event that is missing, extra, or different
-- by hand: it needs the event log as a table, so run `streambpe check RUN`
(
    SELECT seq, 'in the table, not in the log' AS problem, op, left_id, right_id, id, n
    FROM (FROM events WHERE seq IS NOT NULL EXCEPT FROM logged_events)
)
UNION ALL
(
    SELECT seq, 'in the log, not in the table' AS problem, op, left_id, right_id, id, n
    FROM (FROM logged_events EXCEPT FROM events)
)
ORDER BY seq, problem;
