-- sources: one row is a counted stretch of an input: [start_at, stop_at) of its decompressed bytes,
-- or of its rows for Parquet and tables of counts.
CREATE TABLE IF NOT EXISTS sources (
    path       VARCHAR NOT NULL,
    kind       VARCHAR NOT NULL,   -- txt, lines, jsonl, csv, parquet, counts, iterator
    text_column VARCHAR NOT NULL,  -- for jsonl, csv, parquet; otherwise ''
    start_at   BIGINT NOT NULL,
    stop_at    BIGINT NOT NULL,
    documents  BIGINT NOT NULL,    -- documents that end in this stretch
    text_bytes BIGINT NOT NULL,    -- UTF-8 bytes of text counted
    bad_utf8   BIGINT NOT NULL,    -- invalid sequences that were replaced or left out
    boms       BIGINT NOT NULL,    -- byte order marks dropped
    nulls      BIGINT NOT NULL,    -- null values skipped
    digest     VARCHAR NOT NULL,   -- SHA-256 of the stretch as it was read
    part       VARCHAR NOT NULL,   -- the part it was committed in, which also names its file in sequences/
    file_bytes BIGINT NOT NULL,    -- size of the whole input when it was counted
    mtime_ns   BIGINT NOT NULL,    -- its time stamp at that time
    state      VARCHAR NOT NULL,   -- 'last' if the input ends here, otherwise 'part'
    dropped    BIGINT NOT NULL,    -- characters left out by --unencodable drop
    group_name VARCHAR DEFAULT '', -- the source group (--group, --group-by); '' for none
    bad_lines  BIGINT DEFAULT 0,   -- lines left out by --bad-lines skip
    cut_documents BIGINT DEFAULT 0,  -- documents of which --document-cap left out the end
    cut_bytes  BIGINT DEFAULT 0,   -- bytes of text that it left out
    PRIMARY KEY (path, start_at)
);
