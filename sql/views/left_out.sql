-- left_out: one row is a chunk that a training leaves out, and the reason: stop list, cut-off, or weight.
-- n is the weighted count if the training has weights; a chunk whose weighted count is 0 has the reason weight.
-- The training is the one named by SET VARIABLE training = 'NAME'; main if it is not set.
-- The reason belongs to a training, not to the counts: another training of the same run may leave out other chunks.
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
