-- left_out: one row is a chunk that a training does not learn from, and why: stop list, cut-off, or weight.
-- n is the count with --weight if the training has that; a chunk that weights make 0 has the reason weight.
-- The training is the one named by SET VARIABLE training = 'NAME'; main if it is not set.
-- The reason belongs to a training, not to the counts: another training of the same run may leave out others.
CREATE OR REPLACE VIEW left_out AS
WITH config AS (
    SELECT CAST(json_extract_string(value, '$.config.freq_cutoff') AS BIGINT) AS freq_cutoff
    FROM query_table(coalesce(getvariable('training'), 'main') || '.facts')
    WHERE key = 'config'
)
SELECT
    c.chunk,
    coalesce(w.n, 0) AS n,
    CASE WHEN t.id IS NOT NULL THEN 'stop list' WHEN w.n IS NULL THEN 'weight' ELSE 'cut-off' END AS reason,
    t.id
FROM chunk_counts AS c
LEFT JOIN training_chunks AS w ON w.chunk = c.chunk
CROSS JOIN config
LEFT JOIN query_table(coalesce(getvariable('training'), 'main') || '.tokens') AS t
    ON t.kind = 'stop word' AND t.bytes = encode(c.chunk)
WHERE t.id IS NOT NULL OR w.n IS NULL OR w.n < config.freq_cutoff
ORDER BY n DESC, c.chunk;
