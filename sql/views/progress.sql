-- progress: one row is a pass of a training: its events, its speed, and the memory it took.
-- The training is the one named by SET VARIABLE training = 'NAME'; main if it is not set.
CREATE OR REPLACE VIEW progress AS
SELECT
    batch,
    first_seq + events                                       AS events_so_far,
    events,
    round(sum(seconds) OVER (ORDER BY batch), 3)             AS seconds_so_far,
    round(events / nullif(seconds, 0))                       AS events_per_second,
    mode,
    refills,
    spills,
    hot_pairs,
    places,
    memory_bytes
FROM query_table(coalesce(getvariable('training'), 'main') || '.batches')
ORDER BY batch;
