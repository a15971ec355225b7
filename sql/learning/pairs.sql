-- pairs: the table of --learner tables (training/NAME/blocks/tables/pairs.duckdb), created before pairs are counted.
-- pair_counts: one row is a pair of neighbouring tokens in words, if that pair may be merged, and its count.
CREATE OR REPLACE TABLE pair_counts (
    left_id  INTEGER NOT NULL,
    right_id INTEGER NOT NULL,
    n        BIGINT NOT NULL
);
