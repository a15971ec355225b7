-- merge_curve: one row is an event and its token, in order: how fast counts fall as the vocabulary grows.
-- The training is the one named by SET VARIABLE training = 'NAME'; main if it is not set.
CREATE OR REPLACE VIEW merge_curve AS
SELECT
    e.seq,
    e.op,
    e.id,
    try(decode(t.bytes)) AS text,
    shown(t.bytes) AS shown,
    e.n
FROM query_table(coalesce(getvariable('training'), 'main') || '.events') AS e
JOIN query_table(coalesce(getvariable('training'), 'main') || '.tokens') AS t ON t.id = e.id
WHERE e.seq IS NOT NULL
ORDER BY e.seq;
