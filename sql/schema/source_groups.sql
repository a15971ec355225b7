-- source_groups: one row is a group of sources that was named while counting (--group, --group-by), '' for the
-- sources in none; empty if no group was named.
CREATE TABLE IF NOT EXISTS source_groups (
    group_name VARCHAR PRIMARY KEY,
    documents  BIGINT NOT NULL,
    bytes      BIGINT NOT NULL,    -- of text
    chunks     BIGINT NOT NULL,
    "distinct" BIGINT NOT NULL,    -- different chunks
    sha256     VARCHAR NOT NULL    -- of (length, chunk, n), as that of the whole corpus in table run
);
