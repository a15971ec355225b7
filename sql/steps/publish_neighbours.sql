-- publish_neighbours: fill table superword_neighbours from the private database for superwords.
-- inputs:  database VARCHAR, adjacency_floor BIGINT
-- reads:   learned.neighbours, learned.symbols, superword_chunks (filled before)
-- returns: nothing; it adds rows to superword_neighbours, ordered by their numbers
-- by hand: it needs the private database of a training that is learning superwords
ATTACH getvariable('database') AS learned (READ_ONLY);
INSERT INTO superword_neighbours
WITH numbered AS (
    SELECT s.symbol, c.number FROM learned.symbols AS s JOIN superword_chunks AS c ON c.chunk = s.chunk
)
SELECT l.number, r.number, a.n
FROM learned.neighbours AS a
JOIN numbered AS l ON l.symbol = a.left_id
JOIN numbered AS r ON r.symbol = a.right_id
WHERE a.n >= getvariable('adjacency_floor')
ORDER BY ALL;
