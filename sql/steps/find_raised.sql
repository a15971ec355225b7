-- find_raised: which remainders of weighted counts get one more, so that all add up to the (rounded) total.
-- inputs:  denominator BIGINT
-- reads:   rests (one row = rest, n: how many chunks of some range have this remainder; steps/weigh_range)
-- returns: rest, places: chunks above this remainder get one more, and so many of those that have it; at most one row
-- by hand: needs the weights as fractions; run `streambpe train RUN --weight NAME=NUMBER`
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
