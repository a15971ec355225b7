-- recount_documents: count how often each chunk of a part occurs in the documents of that part.
-- inputs:  chunks VARCHAR, documents VARCHAR
-- reads:   the two files of a part in RUN/sequences
-- returns: nothing; it fills recounted_documents (make_document_recount); an id that stands for no chunk gets NULL
-- by hand: it needs a temporary table of `check`, so run `streambpe check RUN`
INSERT INTO recounted_documents BY NAME
SELECT c.chunk, d.n AS in_documents
FROM (
    SELECT chunk_id, count(*) AS n
    FROM read_parquet(getvariable('documents'), hive_partitioning = false)
    WHERE chunk_id >= 0
    GROUP BY chunk_id
) AS d
LEFT JOIN read_parquet(getvariable('chunks'), file_row_number = true, hive_partitioning = false) AS c
    ON c.file_row_number = d.chunk_id;
