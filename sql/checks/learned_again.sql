-- learned_again: a table of a training against that of the same training, learned again.
-- inputs:  filled VARCHAR, learned VARCHAR, max_rows BIGINT
-- reads:   the tables of these names, such as main.tokens and again.tokens
-- returns: problem, and the row: one row for every row that only one of them has, up to max_rows
-- by hand: needs a training that was learned again; run `streambpe check RUN --replay`
(
    SELECT 'in the table, not when learned again' AS problem, *
    FROM (FROM query_table(getvariable('filled')) EXCEPT ALL FROM query_table(getvariable('learned')))
)
UNION ALL
(
    SELECT 'when learned again, not in the table' AS problem, *
    FROM (FROM query_table(getvariable('learned')) EXCEPT ALL FROM query_table(getvariable('filled')))
)
ORDER BY ALL
LIMIT getvariable('max_rows');
