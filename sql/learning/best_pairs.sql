-- best_pairs: the best pairs, in order: those that count most, and of those that tie the first by the labels of their
--         tokens.
-- inputs:  at_least BIGINT, most BIGINT
-- reads:   pair_counts, incoming (id, label)
-- returns: left_id, right_id, n
SELECT left_id, right_id, n
FROM pair_counts
JOIN incoming AS a ON left_id = a.id
JOIN incoming AS b ON right_id = b.id
WHERE n >= getvariable('at_least')
ORDER BY n DESC, a.label, b.label
LIMIT getvariable('most');
