-- change_pairs: what a pass changed in the counts of pairs. A pair that stands nowhere any more has no row.
-- reads:   incoming (left_id, right_id, n: by how much a count rises or falls; a pair once)
-- changes: pair_counts
MERGE INTO pair_counts
USING incoming ON pair_counts.left_id = incoming.left_id AND pair_counts.right_id = incoming.right_id
WHEN MATCHED AND pair_counts.n + incoming.n = 0 THEN DELETE
WHEN MATCHED THEN UPDATE SET n = pair_counts.n + incoming.n
WHEN NOT MATCHED THEN INSERT (left_id, right_id, n) VALUES (incoming.left_id, incoming.right_id, incoming.n);
