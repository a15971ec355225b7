-- top_pairs: one row is a pair that could be merged next, best first (by count, then by lowest ids).
-- The training is the one named by SET VARIABLE training = 'NAME'; main if it is not set.
CREATE OR REPLACE VIEW top_pairs AS
SELECT
    p.left_id,
    p.right_id,
    try(decode(l.bytes || r.bytes)) AS text,
    shown(l.bytes || r.bytes) AS shown,
    p.n
FROM query_table(coalesce(getvariable('training'), 'main') || '.pair_counts') AS p
JOIN query_table(coalesce(getvariable('training'), 'main') || '.tokens') AS l ON l.id = p.left_id
JOIN query_table(coalesce(getvariable('training'), 'main') || '.tokens') AS r ON r.id = p.right_id
ORDER BY p.n DESC, p.left_id, p.right_id;
