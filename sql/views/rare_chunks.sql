-- rare_chunks: one row is a count, up to 100: how many distinct chunks have it, and what a cut-off above it leaves out.
CREATE OR REPLACE VIEW rare_chunks AS
WITH by_count AS (
    SELECT n, count(*) AS chunks, (count(*) * n)::BIGINT AS occurrences
    FROM chunk_counts
    WHERE n <= 100
    GROUP BY n
),
total AS (
    SELECT count(*) AS chunks, sum(n)::BIGINT AS occurrences FROM chunk_counts
)
SELECT
    by_count.n,
    by_count.chunks,
    by_count.occurrences,
    sum(by_count.chunks) OVER (ORDER BY by_count.n) / total.chunks           AS chunks_dropped,
    sum(by_count.occurrences) OVER (ORDER BY by_count.n) / total.occurrences AS occurrences_dropped
FROM by_count, total
ORDER BY by_count.n;
