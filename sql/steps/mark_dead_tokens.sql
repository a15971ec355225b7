-- mark_dead_tokens: record when each learned token was last deleted, unless it was learned again later.
-- inputs:
-- reads:   events
-- returns: nothing
-- by hand: .read sql/steps/mark_dead_tokens.sql
UPDATE tokens
SET died = told.died
FROM (
    SELECT id, CASE WHEN max(seq) FILTER (op = 'delete') = max(seq) THEN max(seq) END AS died
    FROM events
    GROUP BY id
) AS told
WHERE tokens.id = told.id AND tokens.died IS DISTINCT FROM told.died;
