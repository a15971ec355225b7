-- look_up_pairs: the counts of some pairs; a pair that does not occur has no row.
-- reads:   pair_counts, incoming (key = left << 32 | right)
-- returns: key, n
SELECT key, pair_counts.n
FROM incoming JOIN pair_counts ON left_id = key >> 32 AND right_id = key & 4294967295;
