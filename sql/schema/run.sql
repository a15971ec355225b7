-- run: one row is a fact about this run: the format version, the options of the count, the corpus.
CREATE TABLE IF NOT EXISTS run (
    key   VARCHAR PRIMARY KEY,
    value VARCHAR NOT NULL      -- text or JSON
);
