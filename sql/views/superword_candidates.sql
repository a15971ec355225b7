-- superword_candidates: one row is a pair of neighbouring chunks that no supermerge joined, most frequent first.
-- n counts all places where they are adjacent, including those inside longer superwords.
-- The training is the one named by SET VARIABLE training = 'NAME'; main if it is not set.
CREATE OR REPLACE VIEW superword_candidates AS
SELECT a.left_chunk, a.right_chunk, a.n
FROM superword_adjacency AS a
ANTI JOIN (
    SELECT l.bytes AS left_bytes, r.bytes AS right_bytes
    FROM query_table(coalesce(getvariable('training'), 'main') || '.events') AS e
    JOIN query_table(coalesce(getvariable('training'), 'main') || '.tokens') AS l ON l.id = e.left_id
    JOIN query_table(coalesce(getvariable('training'), 'main') || '.tokens') AS r ON r.id = e.right_id
    WHERE e.op = 'supermerge'
) AS j ON j.left_bytes = encode(a.left_chunk) AND j.right_bytes = encode(a.right_chunk)
ORDER BY a.n DESC, a.left_chunk, a.right_chunk;
