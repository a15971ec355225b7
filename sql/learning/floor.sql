-- floor: what the best pairs count at least. They are not more than `most`, and none counts less than the best one
--         divided by `ratio`; but at least `fewest`, and of pairs that tie all or none.
-- inputs:  at_least BIGINT, fewest BIGINT, most BIGINT, ratio BIGINT
-- reads:   pair_counts
-- returns: floor
SELECT greatest(
    getvariable('at_least'),
    least(
        coalesce((SELECT n FROM pair_counts ORDER BY n DESC LIMIT 1 OFFSET getvariable('fewest') - 1), 0),
        1 + greatest(
            coalesce((SELECT max(n) FROM pair_counts) // getvariable('ratio'), 0),
            coalesce((SELECT n FROM pair_counts ORDER BY n DESC LIMIT 1 OFFSET getvariable('most')), 0)
        )
    )
) AS floor;
