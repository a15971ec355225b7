-- add_group_counts: what group_counts holds of a range of chunks, and what new parts hold of it, added up.
-- inputs:  first_chunk VARCHAR, end_chunk VARCHAR (the range ends before it; NULL: it goes to the end)
-- reads:   group_counts, incoming (one row = chunk, group_name, n; the range of each part; registered by the caller)
-- returns: chunk, group_name, n; by both, in the order of their bytes
-- by hand: needs the parts' own records; run `streambpe count RUN`
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
