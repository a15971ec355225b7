-- superword_adjacency: one row is a pair of neighbouring chunks that may be joined, and the number of places where they
-- are adjacent. Stored as numbers (superword_neighbours), with the text of each chunk once (superword_chunks).
-- The training is the one named by SET VARIABLE training = 'NAME'; main if it is not set.
CREATE OR REPLACE VIEW superword_adjacency AS
SELECT l.chunk AS left_chunk, r.chunk AS right_chunk, a.n
FROM query_table(coalesce(getvariable('training'), 'main') || '.superword_neighbours') AS a
-- a number without a chunk must not hide its row
LEFT JOIN query_table(coalesce(getvariable('training'), 'main') || '.superword_chunks') AS l ON l.number = a.left_number
LEFT JOIN query_table(coalesce(getvariable('training'), 'main') || '.superword_chunks') AS r ON r.number = a.right_number;
