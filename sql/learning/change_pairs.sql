-- change_pairs: apply the changes of a pass to the counts of pairs. A pair that no longer occurs has no row.
-- reads:   incoming (columns key = left << 32 | right, and n, by which the count changes; each pair once)
-- changes: pair_counts
MERGE INTO pair_counts
USING (SELECT (key >> 32)::INTEGER AS left_id, (key & 4294967295)::INTEGER AS right_id, n FROM incoming) AS changes
    ON pair_counts.left_id = changes.left_id AND pair_counts.right_id = changes.right_id
WHEN MATCHED AND pair_counts.n + changes.n = 0 THEN DELETE
WHEN MATCHED THEN UPDATE SET n = pair_counts.n + changes.n
WHEN NOT MATCHED THEN INSERT (left_id, right_id, n) VALUES (changes.left_id, changes.right_id, changes.n);
