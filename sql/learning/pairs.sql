-- pairs: what SQL reads of the learner of tables (training/NAME/blocks/tables/pairs.duckdb), before it counts.
-- pair_counts: one row is a pair of tokens that stand side by side in the words and may be merged, and how often.
CREATE OR REPLACE TABLE pair_counts (
    left_id  INTEGER NOT NULL,
    right_id INTEGER NOT NULL,
    n        BIGINT NOT NULL
);
