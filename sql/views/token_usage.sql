-- token_usage: one row is a living token and how often the corpus uses it at the end of the training, most used first.
-- Column share_left is n by how often merges make the token: near 0 for a residue, a mere step towards longer tokens.
-- With superwords, uses are counted before superwords are joined, so a superword has 0; with uw, the view is empty.
-- The training is the one named by SET VARIABLE training = 'NAME'; main if it is not set.
CREATE OR REPLACE VIEW token_usage AS
SELECT
    t.id,
    try(decode(t.bytes)) AS text,
    shown(t.bytes) AS shown,
    t.bytes,
    t.kind,
    octet_length(t.bytes) AS length,
    coalesce(c.n, 0) AS n,
    coalesce(c.alone, 0) AS alone,
    coalesce(c.n, 0) / sum(c.n) OVER () AS share,
    e.n AS n_when_learned,
    coalesce(c.n, 0) / nullif(m.made, 0) AS share_left
FROM query_table(coalesce(getvariable('training'), 'main') || '.tokens') AS t
LEFT JOIN query_table(coalesce(getvariable('training'), 'main') || '.token_counts') AS c ON c.id = t.id
LEFT JOIN query_table(coalesce(getvariable('training'), 'main') || '.events') AS e ON e.seq = t.born
LEFT JOIN (
    SELECT id, sum(n) AS made FROM query_table(coalesce(getvariable('training'), 'main') || '.events')
    WHERE op = 'merge' GROUP BY id
) AS m ON m.id = t.id
WHERE t.died IS NULL AND EXISTS (FROM query_table(coalesce(getvariable('training'), 'main') || '.token_counts'))
ORDER BY n DESC, t.id;
