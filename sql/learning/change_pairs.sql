-- change_pairs: apply the changes of a pass to the counts of pairs. A pair that no longer occurs has no row.
-- reads:   incoming (columns left_id, right_id, and n, by which the count changes; each pair once)
-- changes: pair_counts
MERGE INTO pair_counts
USING incoming ON pair_counts.left_id = incoming.left_id AND pair_counts.right_id = incoming.right_id
WHEN MATCHED AND pair_counts.n + incoming.n = 0 THEN DELETE
WHEN MATCHED THEN UPDATE SET n = pair_counts.n + incoming.n
WHEN NOT MATCHED THEN INSERT (left_id, right_id, n) VALUES (incoming.left_id, incoming.right_id, incoming.n);
