-- words: a view over the learner's blocks, beside the pairs, for a shell that was started in their folder.
-- words:   one row is a token of a word of a block, in its place; n: how often the word stands in the text.
-- inputs:  folder VARCHAR
-- reads:   words-*.parquet
SET file_search_path = getvariable('folder');
CREATE OR REPLACE VIEW words AS
SELECT
    regexp_extract(filename, '(\d+)\.parquet$', 1)::INTEGER AS block,
    word,
    row_number() OVER (PARTITION BY filename, word ORDER BY file_row_number) - 1 AS place,
    token,
    n
FROM read_parquet('words-*.parquet', filename = true, file_row_number = true)
WHERE token >= 0;
