-- superword_runs: the view against the runs that stand in the stored documents.
-- inputs:
-- reads:   superword_runs, recounted_runs (steps/make_run_recount)
-- returns: chunks, in_table, recounted: one row for every run on which they differ
-- by hand: needs the stored documents; run `streambpe check RUN`
WITH both_sides AS (
    SELECT chunks, n AS in_table, NULL::BIGINT AS recounted FROM superword_runs
    UNION ALL
    SELECT chunks, NULL, n FROM recounted_runs
)
SELECT chunks, sum(in_table)::BIGINT AS in_table, sum(recounted)::BIGINT AS recounted
FROM both_sides
GROUP BY chunks
HAVING sum(both_sides.in_table) IS DISTINCT FROM sum(both_sides.recounted) OR count(both_sides.in_table) > 1
ORDER BY 1;
