-- group_counts: the table against a recount from the committed parts of each group.
-- inputs:
-- reads:   group_counts, recounted_group_counts (one row = chunk, group_name, n; make_group_recount)
-- returns: chunk, group_name, in_table, recounted: one row for every chunk and group on which they differ
-- by hand: needs the parts' own records; run `streambpe check RUN`
WITH totals AS (
    SELECT chunk, group_name, sum(n)::BIGINT AS n, count(*) AS copies FROM group_counts GROUP BY chunk, group_name
)
SELECT
    coalesce(totals.chunk, recounted.chunk) AS chunk,
    coalesce(totals.group_name, recounted.group_name) AS group_name,
    totals.n AS in_table,
    recounted.n AS recounted
FROM totals
FULL JOIN recounted_group_counts AS recounted
    ON totals.chunk = recounted.chunk AND totals.group_name = recounted.group_name
WHERE totals.n IS DISTINCT FROM recounted.n OR totals.copies > 1
ORDER BY ALL;
