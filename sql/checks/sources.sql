-- sources: compare the table with the stretches recorded in the committed parts.
-- inputs:
-- reads:   sources, recounted_sources (the columns of sources; registered by the caller)
-- returns: path, start_at, stop_at, problem: one row for each stretch that is missing, extra, or different
-- by hand: it needs the records in the parts, so run `streambpe check RUN`
(
    SELECT path, start_at, stop_at, 'in the table, not in the parts' AS problem
    FROM (SELECT * FROM sources EXCEPT SELECT * FROM recounted_sources)
)
UNION ALL
(
    SELECT path, start_at, stop_at, 'in the parts, not in the table' AS problem
    FROM (SELECT * FROM recounted_sources EXCEPT SELECT * FROM sources)
)
ORDER BY ALL;
