-- group_counts: one row is a chunk, a group of sources that contains it, and how often it occurs there; chunk_counts is the
-- sum over groups. Empty if no group was named.
CREATE TABLE IF NOT EXISTS group_counts (
    chunk      VARCHAR NOT NULL USING COMPRESSION uncompressed,
    group_name VARCHAR NOT NULL,
    n          BIGINT NOT NULL
);
