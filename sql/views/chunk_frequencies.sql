-- chunk_frequencies: one row is a distinct chunk, most frequent first, with its share of all chunks.
CREATE OR REPLACE VIEW chunk_frequencies AS
SELECT
    chunk,
    n,
    n / sum(n) OVER ()                                                        AS share,
    sum(n) OVER (ORDER BY n DESC, chunk ROWS UNBOUNDED PRECEDING) / sum(n) OVER () AS share_so_far
FROM chunk_counts
ORDER BY n DESC, chunk;
