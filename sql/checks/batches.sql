-- batches: each pass begins where the one before it ended, and together they cover all events.
-- inputs:  events BIGINT, batches BIGINT
-- reads:   batches (the inputs are the expected numbers of events and batches)
-- returns: batch, problem, found, expected: one row for each pass that does not continue the one before it
-- by hand: duckdb -readonly RUN/state.duckdb -cmd "SET VARIABLE events=9; SET VARIABLE batches=3" -f sql/checks/batches.sql
WITH placed AS (
    SELECT
        batch,
        first_seq,
        row_number() OVER (ORDER BY batch) - 1                                        AS place,
        coalesce(sum(events) OVER (ORDER BY batch ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0)::BIGINT
                                                                                       AS events_before
    FROM batches
)
SELECT batch, 'number' AS problem, batch AS found, place AS expected FROM placed WHERE batch <> place
UNION ALL
SELECT batch, 'first_seq', first_seq, events_before FROM placed WHERE first_seq <> events_before
UNION ALL
SELECT NULL, 'events in all', found, getvariable('events')
FROM (SELECT coalesce(sum(events), 0)::BIGINT AS found FROM batches) WHERE found <> getvariable('events')
UNION ALL
SELECT NULL, 'passes in all', found, getvariable('batches')
FROM (SELECT count(*) AS found FROM batches) WHERE found <> getvariable('batches')
ORDER BY ALL;
