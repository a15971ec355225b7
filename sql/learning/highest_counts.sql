-- highest_counts: the counts of the most frequent pairs, falling.
-- inputs:  at_least BIGINT, most BIGINT
-- reads:   pair_counts
-- returns: n
SELECT n FROM pair_counts WHERE n >= getvariable('at_least') ORDER BY n DESC LIMIT getvariable('most');
