-- superword_runs: what the view shows against the runs that stand in the stored documents.
-- inputs:
-- reads:   superword_run_numbers, superword_chunks, recounted_runs (steps/make_run_recount)
-- returns: chunks, in_table, recounted: one row for every run on which they differ
-- by hand: needs the stored documents; run `streambpe check RUN`
WITH known AS (
    SELECT list(chunk ORDER BY number) AS chunks FROM superword_chunks
),
both_sides AS (
    SELECT list_transform(r.numbers, lambda number: known.chunks[number]) AS chunks, r.n AS in_table,
           NULL::BIGINT AS recounted
    FROM superword_run_numbers AS r CROSS JOIN known
    UNION ALL
    SELECT chunks, NULL, n FROM recounted_runs
)
SELECT chunks, sum(in_table)::BIGINT AS in_table, sum(recounted)::BIGINT AS recounted
FROM both_sides
GROUP BY chunks
HAVING sum(both_sides.in_table) IS DISTINCT FROM sum(both_sides.recounted) OR count(both_sides.in_table) > 1
ORDER BY 1;
