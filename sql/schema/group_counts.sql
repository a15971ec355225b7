-- group_counts: one row is a chunk, a group of sources that has it, and how often; chunk_counts is their sum. Empty if no
-- group was named.
CREATE TABLE IF NOT EXISTS group_counts (
    chunk      VARCHAR NOT NULL USING COMPRESSION uncompressed,
    group_name VARCHAR NOT NULL,
    n          BIGINT NOT NULL
);
