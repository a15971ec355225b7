-- group_counts: compare the table with a recount of the committed parts of each group.
-- inputs:
-- reads:   group_counts, recounted_group_counts (columns chunk, group_name, n; make_group_recount)
-- returns: chunk, group_name, in_table, recounted: one row for each chunk and group whose counts differ
-- by hand: it needs the records in the parts, so run `streambpe check RUN`
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
