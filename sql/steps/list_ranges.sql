-- list_ranges: where the ranges begin in which chunk_counts is read: each holds about so many bytes, since the rows lie in
-- the order of the chunks' bytes (rows that were put in by hand may lie elsewhere; then a range is smaller or larger).
-- inputs:  range_bytes BIGINT
-- reads:   chunk_counts
-- returns: the least chunk of each range; in order
-- by hand: duckdb -readonly RUN/state.duckdb -cmd "SET VARIABLE range_bytes=4000000" -f sql/steps/list_ranges.sql
SELECT min(chunk)
FROM (
    SELECT
        chunk,
        sum(strlen(chunk) + 16) OVER (ROWS UNBOUNDED PRECEDING) // getvariable('range_bytes') AS place
    FROM chunk_counts
)
GROUP BY place
ORDER BY 1;
