-- list_event_counts: what every event did and the count it was chosen by.
-- inputs:
-- reads:   events
-- returns: op, n; in the order of the events
-- by hand: duckdb -readonly RUN/state.duckdb -f sql/steps/list_event_counts.sql
SELECT op, n FROM events WHERE seq IS NOT NULL ORDER BY seq;
