-- Statements that only read tables: each runs.
FROM chunk_counts LIMIT 1
chunk_frequencies
VALUES (1), (2)
TABLE run
SHOW TABLES
SHOW ALL TABLES
DESCRIBE chunk_counts
SUMMARIZE chunk_counts
WITH a AS (SELECT 1 AS n) FROM a
(SELECT 1) UNION ALL (SELECT 2)
PIVOT (SELECT 'a' AS k, 1 AS v) ON k IN ('a') USING sum(v)
FROM duckdb_tables()
SELECT 'ä;ö' AS "q;", /* ; */ 1; -- a comment; behind
SELECT 1 -- a comment
FROM run;;
SELECT 'COPY x TO y; DROP TABLE run' AS text
