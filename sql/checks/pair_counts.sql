-- pair_counts: compare the pairs of a training with those of the same training learned again.
-- inputs:  filled VARCHAR, learned VARCHAR, filled_floor BIGINT, learned_floor BIGINT, max_rows BIGINT
-- reads:   the two tables named by the inputs, such as main.pair_counts and again.pair_counts; each holds all pairs
--          whose count is at least its floor
-- returns: left_id, right_id, in_table, learned_again: one row for each pair whose counts differ, up to max_rows
-- by hand: it needs a training that was learned again, so run `streambpe check RUN --replay`
WITH totals AS (
    SELECT left_id, right_id, sum(n)::BIGINT AS n, count(*) AS copies
    FROM query_table(getvariable('filled'))
    WHERE n >= getvariable('learned_floor')
    GROUP BY ALL
),
again AS (
    SELECT left_id, right_id, n
    FROM query_table(getvariable('learned'))
    WHERE n >= greatest(getvariable('filled_floor'), getvariable('learned_floor'))
)
SELECT
    coalesce(totals.left_id, again.left_id)   AS left_id,
    coalesce(totals.right_id, again.right_id) AS right_id,
    totals.n                                  AS in_table,
    again.n                                   AS learned_again
FROM totals
FULL JOIN again ON totals.left_id = again.left_id AND totals.right_id = again.right_id
WHERE totals.n IS DISTINCT FROM again.n OR totals.copies > 1
ORDER BY 1, 2
LIMIT getvariable('max_rows');
