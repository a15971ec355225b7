-- words: a view of the learner's blocks, stored with the pairs, for a shell started in their folder.
-- words:   one row is a token at its place in a word of a block; n is how often the word occurs in the text.
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
