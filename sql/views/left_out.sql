-- left_out: one row is a chunk that a training does not learn from, and why: stop list, or cut-off.
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
    c.n,
    CASE WHEN t.id IS NULL THEN 'cut-off' ELSE 'stop list' END AS reason,
    t.id
FROM chunk_counts AS c
CROSS JOIN config
LEFT JOIN query_table(coalesce(getvariable('training'), 'main') || '.tokens') AS t
    ON t.kind = 'stop word' AND t.bytes = encode(c.chunk)
WHERE t.id IS NOT NULL OR c.n < config.freq_cutoff
ORDER BY c.n DESC, c.chunk;
