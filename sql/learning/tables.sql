-- tables: the tables of the private database (training/NAME/superwords-*/learning.duckdb) in use while superwords
--         are learned.
-- neighbours: one row is a pair of symbols that are neighbours in the documents, and in how many places; all pairs.
-- symbols:    one row is a symbol and the chunk it represents; empty with uw.
-- made_of:    one row once the neighbours are added up: what they were made from.
CREATE TABLE IF NOT EXISTS neighbours (
    left_id  INTEGER NOT NULL,
    right_id INTEGER NOT NULL,
    n        BIGINT NOT NULL
);
CREATE TABLE IF NOT EXISTS symbols (
    symbol INTEGER NOT NULL,
    chunk  VARCHAR NOT NULL
);
CREATE TABLE IF NOT EXISTS made_of (
    made_of VARCHAR NOT NULL
);
