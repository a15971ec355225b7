-- events: the table against the event log.
-- inputs:
-- reads:   events, logged_events (one row = seq, op, left_id, right_id, id, n, parts; registered by the caller)
-- rows with an empty seq are not in the log: phase one learned them ahead
-- returns: seq, problem, op, left_id, right_id, id, n: one row for every event that is missing, extra or different
-- by hand: needs the event log as a table; run `streambpe check RUN`
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
