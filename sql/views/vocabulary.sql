-- vocabulary: one row is a living token of a training, ordered by log id, with the count of the event that made it.
-- The training is the one named by SET VARIABLE training = 'NAME'; main if it is not set.
CREATE OR REPLACE VIEW vocabulary AS
SELECT
    t.id,
    try(decode(t.bytes)) AS text,
    shown(t.bytes) AS shown,
    t.bytes,
    t.kind,
    octet_length(t.bytes) AS length,
    e.left_id,
    e.right_id,
    e.n
FROM query_table(coalesce(getvariable('training'), 'main') || '.tokens') AS t
LEFT JOIN query_table(coalesce(getvariable('training'), 'main') || '.events') AS e ON e.seq = t.born
WHERE t.died IS NULL
ORDER BY t.id;
