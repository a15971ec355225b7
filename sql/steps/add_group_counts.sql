-- add_group_counts: add the counts in new parts to those in group_counts, for a range of chunks.
-- inputs:  first_chunk VARCHAR, end_chunk VARCHAR (not included; NULL: to the end)
-- reads:   group_counts, incoming (columns chunk, group_name, n, the same range of each part; registered by the caller)
-- returns: chunk, group_name, n; ordered by the bytes of both
-- by hand: it needs the records in the parts, so run `streambpe count RUN`
SELECT chunk, group_name, sum(n)::BIGINT AS n
FROM (
    SELECT chunk, group_name, n FROM incoming
    UNION ALL
    SELECT chunk, group_name, n
    FROM group_counts
    WHERE chunk >= getvariable('first_chunk') AND (getvariable('end_chunk') IS NULL OR chunk < getvariable('end_chunk'))
)
GROUP BY chunk, group_name
ORDER BY chunk, group_name;
