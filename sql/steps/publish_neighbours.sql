-- publish_neighbours: table superword_adjacency from the private database of phase two.
-- inputs:  database VARCHAR, adjacency_floor BIGINT
-- reads:   learned.neighbours, learned.symbols
-- returns: nothing; rows in superword_adjacency, by their chunks
-- by hand: needs the private database of a training that is learning superwords
ATTACH getvariable('database') AS learned (READ_ONLY);
INSERT INTO superword_adjacency
SELECT l.chunk, r.chunk, a.n
FROM learned.neighbours AS a
JOIN learned.symbols AS l ON l.symbol = a.left_id
JOIN learned.symbols AS r ON r.symbol = a.right_id
WHERE a.n >= getvariable('adjacency_floor')
ORDER BY ALL;
