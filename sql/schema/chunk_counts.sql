-- chunk_counts: one row is a distinct chunk of the corpus and how often it occurs.
CREATE TABLE IF NOT EXISTS chunk_counts (
    chunk VARCHAR NOT NULL USING COMPRESSION uncompressed,
    n     BIGINT NOT NULL
);
