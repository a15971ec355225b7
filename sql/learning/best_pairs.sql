-- best_pairs: the best pairs: highest count first, and pairs with equal counts by the labels of their tokens.
-- inputs:  at_least BIGINT, most BIGINT
-- reads:   pair_counts, incoming (columns id and label, which orders tokens as the rule for ties does)
-- returns: key (left << 32 | right), n
SELECT pairs.left_id::BIGINT << 32 | pairs.right_id AS key, pairs.n
FROM pair_counts AS pairs
JOIN incoming AS a ON pairs.left_id = a.id
JOIN incoming AS b ON pairs.right_id = b.id
WHERE pairs.n >= getvariable('at_least')
ORDER BY pairs.n DESC, a.label, b.label
LIMIT getvariable('most');
