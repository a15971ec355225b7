-- source_groups: compare the table with a recount of the parts of each group.
-- inputs:
-- reads:   source_groups, recounted_groups (the columns of source_groups; registered by the caller)
-- returns: group_name, problem, documents, bytes, chunks, distinct, sha256: one row for each group that differs
-- by hand: it needs the records in the parts, so run `streambpe check RUN`
WITH recounted AS (
    SELECT group_name, documents, bytes, chunks, "distinct", sha256 FROM recounted_groups
)
(
    SELECT group_name, 'in the table, not in the parts' AS problem, documents, bytes, chunks, "distinct", sha256
    FROM (FROM source_groups EXCEPT FROM recounted)
)
UNION ALL
(
    SELECT group_name, 'in the parts, not in the table' AS problem, documents, bytes, chunks, "distinct", sha256
    FROM (FROM recounted EXCEPT FROM source_groups)
)
ORDER BY group_name, problem;
