-- list_ranges: where each range begins in which chunk_counts is read. A range has about range_bytes, since the rows are
-- stored in the order of the chunks' bytes (where rows were inserted by hand, a range may be smaller or larger).
-- inputs:  range_bytes BIGINT
-- reads:   chunk_counts
-- returns: the first chunk of each range; ordered
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
