-- look_up_pairs: the counts of some pairs; a pair that does not occur has no row.
-- reads:   pair_counts, incoming (left_id, right_id)
-- returns: left_id, right_id, n
SELECT left_id, right_id, pair_counts.n FROM pair_counts JOIN incoming USING (left_id, right_id);
