-- pair_counts: the table against the pairs that stand in the words after event `pair_counts_at`.
-- inputs:  pair_floor BIGINT, max_token_length BIGINT, pair_counts_at BIGINT
-- reads:   pair_counts, vetoed, recounted_tokens (registered by the caller; length: in base symbols),
--          recounted_pairs (steps/make_pair_recount)
-- returns: left_id, right_id, in_table, recounted: one row for every pair on which they differ
-- by hand: needs the chunks encoded by the events; run `streambpe check RUN`
WITH totals AS (
    SELECT p.left_id, p.right_id, sum(p.n)::BIGINT AS n, count(*) AS copies
    FROM pair_counts AS p
    -- vetoed at that event: perhaps after the table was filled
    ANTI JOIN vetoed AS v ON v.left_id = p.left_id AND v.right_id = p.right_id AND v.seq = getvariable('pair_counts_at')
    GROUP BY ALL
),
counted AS (
    SELECT left_id, right_id, sum(n)::BIGINT AS n FROM recounted_pairs GROUP BY ALL
    HAVING sum(n) >= getvariable('pair_floor')
),
recounted AS (
    SELECT c.*
    FROM counted AS c
    JOIN recounted_tokens AS l ON l.id = c.left_id
    JOIN recounted_tokens AS r ON r.id = c.right_id
    ANTI JOIN vetoed AS v ON v.left_id = c.left_id AND v.right_id = c.right_id
        AND v.seq <= getvariable('pair_counts_at')
    WHERE l.length + r.length <= getvariable('max_token_length')
)
SELECT
    coalesce(totals.left_id, recounted.left_id)   AS left_id,
    coalesce(totals.right_id, recounted.right_id) AS right_id,
    totals.n                                      AS in_table,
    recounted.n                                   AS recounted
FROM totals
FULL JOIN recounted ON totals.left_id = recounted.left_id AND totals.right_id = recounted.right_id
WHERE totals.n IS DISTINCT FROM recounted.n OR totals.copies > 1
ORDER BY 1, 2;
