-- find_raised: the remainders whose weighted counts are rounded up, so that the sum is the rounded total.
-- inputs:  denominator BIGINT
-- reads:   rests (columns rest and n, how many chunks of a range have this remainder; steps/weigh_range)
-- returns: rest, places: chunks with a larger remainder are rounded up, and so are `places` with this one; at most one row
-- by hand: it needs the weights as fractions, so run `streambpe train RUN --weight NAME=NUMBER`
WITH many AS (
    SELECT rest, sum(n) AS n FROM rests GROUP BY rest
),
goal AS (
    SELECT (2 * sum(rest * n) + getvariable('denominator')) // (2 * getvariable('denominator')) AS raised FROM many
),
running AS (
    SELECT rest, n, sum(n) OVER (ORDER BY rest DESC) AS so_far FROM many
)
SELECT rest, (raised - (so_far - n))::BIGINT AS places
FROM running, goal
WHERE so_far >= raised
ORDER BY rest DESC
LIMIT 1;
