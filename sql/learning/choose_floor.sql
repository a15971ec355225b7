-- choose_floor: down to which count pairs are held in memory: at most so many (or all that tie for the best), at least
--         so many, none that counts less than a share of the best or than is of use.
-- inputs:  most BIGINT, fewest BIGINT, ratio BIGINT, at_least BIGINT
-- reads:   pair_counts
-- returns: floor; no row where no pair is left
WITH best AS (SELECT max(n) AS n FROM pair_counts),
     beyond AS (SELECT n FROM pair_counts ORDER BY n DESC LIMIT 1 OFFSET getvariable('most')),
     enough AS (SELECT n FROM pair_counts ORDER BY n DESC LIMIT 1 OFFSET getvariable('fewest') - 1)
SELECT greatest(
    getvariable('at_least'),
    least(
        coalesce((SELECT n FROM enough), 1),
        greatest(coalesce((SELECT n + 1 FROM beyond), 1), best.n // getvariable('ratio')))) AS floor
FROM best
WHERE best.n IS NOT NULL;
