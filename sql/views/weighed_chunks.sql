-- weighed_chunks: one row is a chunk and its count in a training: that of chunk_counts or, with --weight or --alpha, the
-- weighted one.
-- The training is the one named by SET VARIABLE training = 'NAME'; main if it is not set.
CREATE OR REPLACE VIEW weighed_chunks AS
FROM query_table(coalesce(getvariable('training'), 'main') || '.weighted_counts')
UNION ALL
FROM chunk_counts
WHERE NOT EXISTS (FROM query_table(coalesce(getvariable('training'), 'main') || '.weighted_counts'));
