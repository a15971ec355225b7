-- pairs_from: all pairs whose count is at least `floor`.
-- inputs:  floor BIGINT
-- reads:   pair_counts
-- returns: left_id BIGINT, right_id BIGINT, n
SELECT left_id::BIGINT AS left_id, right_id::BIGINT AS right_id, n FROM pair_counts WHERE n >= getvariable('floor');
