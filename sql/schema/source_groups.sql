-- source_groups: one row is a group of sources named when counting (--group, --group-by), or '' for the
-- sources in no group; empty if no group was named.
CREATE TABLE IF NOT EXISTS source_groups (
    group_name VARCHAR PRIMARY KEY,
    documents  BIGINT NOT NULL,
    bytes      BIGINT NOT NULL,    -- of text
    chunks     BIGINT NOT NULL,
    "distinct" BIGINT NOT NULL,    -- different chunks
    sha256     VARCHAR NOT NULL    -- of (length, chunk, n), like that of the whole corpus in table run
);
