-- superwords: one row is a supermerge of a training, in order: what it joined, and the count it was chosen by.
-- The training is the one named by SET VARIABLE training = 'NAME'; main if it is not set.
CREATE OR REPLACE VIEW superwords AS
SELECT
    e.seq,
    e.id,
    try(decode(t.bytes)) AS text,
    shown(t.bytes) AS shown,
    try(decode(l.bytes)) AS left_text,
    try(decode(r.bytes)) AS right_text,
    e.n
FROM query_table(coalesce(getvariable('training'), 'main') || '.events') AS e
JOIN query_table(coalesce(getvariable('training'), 'main') || '.tokens') AS t ON t.id = e.id
JOIN query_table(coalesce(getvariable('training'), 'main') || '.tokens') AS l ON l.id = e.left_id
JOIN query_table(coalesce(getvariable('training'), 'main') || '.tokens') AS r ON r.id = e.right_id
WHERE e.op = 'supermerge'
ORDER BY e.seq;
