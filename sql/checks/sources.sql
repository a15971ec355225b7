-- sources: the table against the stretches named in the committed parts.
-- inputs:
-- reads:   sources, recounted_sources (one row = the columns of sources; registered by the caller)
-- returns: path, start_at, stop_at, problem: one row for every stretch that is missing, extra or different
-- by hand: needs the parts' own records; run `streambpe check RUN`
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
