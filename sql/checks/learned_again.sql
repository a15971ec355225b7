-- learned_again: compare a table of a training with the same table of the training learned again.
-- inputs:  filled VARCHAR, learned VARCHAR, max_rows BIGINT
-- reads:   the two tables named by the inputs, such as main.tokens and again.tokens
-- returns: problem and the row: one row for each row that only one of the tables has, up to max_rows
-- by hand: it needs a training that was learned again, so run `streambpe check RUN --replay`
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
