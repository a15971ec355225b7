-- list_ranges: the first chunk of each range, for reading chunk_counts in ranges of about range_bytes. This works
-- because rows are stored in the order of the chunks' bytes (rows inserted by hand can make a range smaller or larger).
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
