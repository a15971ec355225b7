-- deletions: one row is a deleted token: when and by which merge it was deleted, and what became of it.
-- Column share is the part of the token's occurrences that the merge used: merged / (merged + split), or NULL if both
-- parts of the merge were this token. Column returned is the event that learned the token again, or NULL.
-- The training is the one named by SET VARIABLE training = 'NAME'; main if it is not set.
CREATE OR REPLACE VIEW deletions AS
WITH told AS (
    SELECT
        *,
        max(seq) FILTER (op <> 'delete') OVER (ORDER BY seq)                               AS cause,
        min(seq) FILTER (op <> 'delete') OVER (
            PARTITION BY id ORDER BY seq ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING
        )                                                                                   AS returned
    FROM query_table(coalesce(getvariable('training'), 'main') || '.events')
    WHERE seq IS NOT NULL
)
SELECT
    d.seq,
    d.id,
    try(decode(t.bytes))                                                                    AS text,
    shown(t.bytes)                                                                          AS shown,
    t.bytes,
    d.n                                                                                     AS split,
    m.n                                                                                     AS merged,
    CASE WHEN m.left_id <> m.right_id THEN m.n / (m.n + d.n) END                            AS share,
    m.id                                                                                    AS for_id,
    try(decode(f.bytes))                                                                    AS for_text,
    t.born,
    d.returned
FROM told AS d
JOIN query_table(coalesce(getvariable('training'), 'main') || '.events') AS m ON m.seq = d.cause
JOIN query_table(coalesce(getvariable('training'), 'main') || '.tokens') AS t ON t.id = d.id
JOIN query_table(coalesce(getvariable('training'), 'main') || '.tokens') AS f ON f.id = m.id
WHERE d.op = 'delete'
ORDER BY d.seq;
