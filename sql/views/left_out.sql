-- left_out: one row is a chunk that a training does not learn from, and why: stop list, cut-off, or weight.
-- n is the count with --weight if the training has that; a chunk that weights make 0 has the reason weight.
-- The training is the one named by SET VARIABLE training = 'NAME'; main if it is not set.
-- The reason belongs to a training, not to the counts: another training of the same run may leave out others.
CREATE OR REPLACE VIEW left_out AS
SELECT
    c.chunk,
    coalesce(w.n, 0) AS n,
    CASE WHEN s.id IS NOT NULL THEN 'stop list' WHEN w.n IS NULL THEN 'weight' ELSE 'cut-off' END AS reason,
    s.id
FROM chunk_counts AS c
LEFT JOIN weighed_chunks AS w ON w.chunk = c.chunk
LEFT JOIN query_table(coalesce(getvariable('training'), 'main') || '.stop_words') AS s ON s.chunk = c.chunk
WHERE c.chunk NOT IN (SELECT chunk FROM training_chunks)
ORDER BY n DESC, c.chunk;
