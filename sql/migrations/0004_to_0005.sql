-- 0004_to_0005: neighbours of a training become numbers of their chunks; the text stays in superword_chunks, and
--               superword_adjacency becomes a view.
-- inputs:
-- reads:   superword_adjacency (a training from before superwords has none), superword_chunks
-- returns: nothing
-- by hand: streambpe count RUN (it does this in the schema of every training)
CREATE TABLE IF NOT EXISTS superword_adjacency (left_chunk VARCHAR, right_chunk VARCHAR, n BIGINT);
INSERT INTO superword_chunks -- a training from before the tables of runs has none
SELECT row_number() OVER (ORDER BY chunk), chunk
FROM (SELECT left_chunk AS chunk FROM superword_adjacency UNION SELECT right_chunk FROM superword_adjacency)
WHERE NOT EXISTS (FROM superword_chunks);
INSERT INTO superword_neighbours
SELECT l.number, r.number, a.n
FROM superword_adjacency AS a
JOIN superword_chunks AS l ON l.chunk = a.left_chunk
JOIN superword_chunks AS r ON r.chunk = a.right_chunk
ORDER BY ALL;
DROP TABLE superword_adjacency;
