-- superword_runs: what the view shows against the runs that stand in the stored documents.
-- inputs:
-- reads:   superword_run_numbers, superword_chunks, recounted_runs (steps/make_run_recount), recounted_chunks
-- returns: chunks, in_table, recounted: one row for every run on which they differ
-- by hand: needs the stored documents; run `streambpe check RUN`
WITH in_order AS ( -- the table's chunks, each by the number that the recount gave it, or below 0 by its own place
    SELECT row_number() OVER (ORDER BY c.number) AS place, c.chunk, coalesce(r.number, -place) AS number
    FROM superword_chunks AS c LEFT JOIN recounted_chunks AS r ON r.chunk = c.chunk
),
known AS (
    SELECT list(number ORDER BY place) AS numbers, list(chunk ORDER BY place) AS chunks FROM in_order
),
recount AS (
    SELECT list(chunk ORDER BY number) AS chunks FROM recounted_chunks
),
both_sides AS (
    SELECT list_transform(r.numbers, lambda number: known.numbers[number])::INTEGER[] AS numbers, r.n AS in_table,
           NULL::BIGINT AS recounted
    FROM superword_run_numbers AS r CROSS JOIN known
    UNION ALL
    SELECT numbers, NULL, n FROM recounted_runs
),
differ AS (
    SELECT numbers, sum(in_table)::BIGINT AS in_table, sum(recounted)::BIGINT AS recounted
    FROM both_sides
    GROUP BY numbers
    HAVING sum(both_sides.in_table) IS DISTINCT FROM sum(both_sides.recounted) OR count(both_sides.in_table) > 1
)
SELECT list_transform(d.numbers, lambda number: if(number < 0, known.chunks[-number], recount.chunks[number])) AS chunks,
       d.in_table, d.recounted
FROM differ AS d CROSS JOIN known CROSS JOIN recount
ORDER BY 1;
