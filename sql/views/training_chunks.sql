-- training_chunks: one row is a chunk that a training learns from, and its count: a chunk of weighed_chunks that is not a
-- stop word and not below the cut-off. The learner reads this view.
-- The training is the one named by SET VARIABLE training = 'NAME'; main if it is not set.
CREATE OR REPLACE VIEW training_chunks AS
SELECT chunk, n
FROM weighed_chunks
WHERE
    chunk NOT IN (SELECT chunk FROM query_table(coalesce(getvariable('training'), 'main') || '.stop_words'))
    AND n >= coalesce(
        (
            SELECT CAST(json_extract_string(value, '$.config.freq_cutoff') AS BIGINT)
            FROM query_table(coalesce(getvariable('training'), 'main') || '.facts')
            WHERE key = 'config'
        ),
        1
    );
