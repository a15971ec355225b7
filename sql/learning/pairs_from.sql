-- pairs_from: all pairs whose count is at least `floor`.
-- inputs:  floor BIGINT
-- reads:   pair_counts
-- returns: left_id, right_id, n
SELECT left_id, right_id, n FROM pair_counts WHERE n >= getvariable('floor');
