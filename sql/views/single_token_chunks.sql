-- single_token_chunks: one row is a chunk that is a single token, most frequent first, with its share of all chunks.
-- The training is the one named by SET VARIABLE training = 'NAME'; main if it is not set.
CREATE OR REPLACE VIEW single_token_chunks AS
SELECT
    decode(t.bytes) AS chunk,
    t.id,
    c.alone AS n,
    c.alone / (SELECT sum(n) FROM weighed_chunks) AS share,
    sum(c.alone) OVER (ORDER BY c.alone DESC, t.id ROWS UNBOUNDED PRECEDING)
        / (SELECT sum(n) FROM weighed_chunks) AS share_so_far
FROM query_table(coalesce(getvariable('training'), 'main') || '.token_counts') AS c
JOIN query_table(coalesce(getvariable('training'), 'main') || '.tokens') AS t ON t.id = c.id
WHERE c.alone > 0
ORDER BY c.alone DESC, t.id;
