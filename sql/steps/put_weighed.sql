-- put_weighed: put the weighted counts of a range, as integers, into the training's table. Chunks whose remainder is above
-- `least_rest` are rounded up, and so are `places` chunks that have this remainder, the first by their bytes.
-- inputs:  least_rest BIGINT, places BIGINT
-- reads:   weighed (steps/weigh_range)
-- returns: nothing
-- by hand: it needs the weights as fractions, so run `streambpe train RUN --weight NAME=NUMBER`
INSERT INTO weighted_counts
WITH placed AS (
    SELECT *, row_number() OVER (PARTITION BY rest = getvariable('least_rest') ORDER BY chunk) AS place FROM weighed
)
SELECT
    chunk,
    whole + CASE
        WHEN rest > getvariable('least_rest') OR (rest = getvariable('least_rest') AND place <= getvariable('places')) THEN 1
        ELSE 0
    END AS n
FROM placed
WHERE n > 0
ORDER BY chunk;
