-- superword_runs: one row is a distinct run of chunks that superwords were learned from, and how often it occurs.
-- A run is a part of a document, as long as possible, in which any two neighbours are in superword_adjacency. Runs are
-- stored as numbers (superword_run_numbers), which is quick to write.
-- The training is the one named by SET VARIABLE training = 'NAME'; main if it is not set.
CREATE OR REPLACE VIEW superword_runs AS
SELECT list_transform(r.numbers, lambda number: c.chunks[number]) AS chunks, r.n
FROM query_table(coalesce(getvariable('training'), 'main') || '.superword_run_numbers') AS r
CROSS JOIN (
    SELECT list(chunk ORDER BY number) AS chunks
    FROM query_table(coalesce(getvariable('training'), 'main') || '.superword_chunks')
) AS c;
