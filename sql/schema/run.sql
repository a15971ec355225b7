-- run: one row is a fact about this run: format version, the options of counting, what the corpus is.
CREATE TABLE IF NOT EXISTS run (
    key   VARCHAR PRIMARY KEY,
    value VARCHAR NOT NULL      -- text or JSON
);
