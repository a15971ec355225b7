-- training: the tables of one training, in the schema that the connection uses (SET schema).
-- events:      one row is an event of the log, in order. With superwords, rows whose seq is NULL are merges of words
--              that the vocabulary had no room for; a larger vocabulary may contain them. While superwords are
--              being learned, the table has all merges of words, then the superwords so far, and neither their
--              order nor their ids are final.
-- tokens:      one row is an id: its text, and the events that made and removed it.
-- pair_counts: one row is a pair of adjacent ids within words, and its count. All pairs that may be merged and whose count
--              is at least `pair_floor` are here, as of event `pair_counts_at` (both in table facts). Checkpoints fill
--              it, too. Once superwords are being learned, the rows are pairs of living tokens that are neighbours in
--              the documents and may be joined. Rows of events whose seq is NULL are merges of words that may come before
--              such a pair.
-- token_counts: one row is a token and how often it occurs in the training chunks at the end of the training
--              (without chunks below the cut-off, before superwords are joined). Empty with uw, and until training ends.
-- stop_words:  one row is a chunk of the stop list, and its id.
-- weighted_counts: one row is a chunk and its count with --weight or --alpha; empty if the training has no weights.
-- superword_neighbours: one row is a pair of neighbouring chunks that may be joined, as numbers, and the number of
--              places where they are adjacent; all pairs with at least `adjacency_floor` places (table facts) are
--              here. Empty without superwords, with uw, and until training ends. See view superword_adjacency.
-- superword_chunks: one row is a chunk in superword_neighbours, and its number there and in
--              superword_run_numbers.
-- superword_run_numbers: one row is a run, its chunks as numbers, and how often it occurs in the documents; see view
--              superword_runs (empty when superword_neighbours is).
-- batches:     one row is a pass: what it learned, what it touched, and what it cost.
-- vetoed:      one row is a pair that would have made a blocked token, and its count when it was the best pair.
-- facts:       one row is a fact about this training: its options, its progress, its digest.
CREATE TABLE IF NOT EXISTS events (
    seq      BIGINT UNIQUE,        -- from 0; NULL: not in the model, ordered by id
    op       VARCHAR NOT NULL,     -- merge, supermerge, delete
    left_id  BIGINT,               -- NULL for a deletion
    right_id BIGINT,
    id       BIGINT NOT NULL,      -- the token made or deleted
    n        BIGINT NOT NULL,      -- the count it was chosen by; for a deletion, the occurrences split
    parts    BIGINT[]              -- what a deletion split it into; otherwise NULL
);
CREATE TABLE IF NOT EXISTS tokens (
    id       BIGINT PRIMARY KEY,   -- log id
    bytes    BLOB NOT NULL,        -- UTF-8; <names> for SCRIPT symbols that do not form a character
    kind     VARCHAR NOT NULL,     -- base, stop word, learned
    born     BIGINT,               -- seq of the event that first made it; NULL for the alphabet and stop words
    died     BIGINT                -- seq of the event that deleted it; NULL while it lives
);
CREATE TABLE IF NOT EXISTS pair_counts (
    left_id  BIGINT NOT NULL,
    right_id BIGINT NOT NULL,
    n        BIGINT NOT NULL
);
CREATE TABLE IF NOT EXISTS token_counts (
    id       BIGINT PRIMARY KEY,   -- log id; tokens that no longer occur have no row
    n        BIGINT NOT NULL,      -- occurrences in chunks, before superwords are joined
    alone    BIGINT NOT NULL       -- of these, where the token is a whole chunk
);
CREATE TABLE IF NOT EXISTS stop_words (
    id    BIGINT PRIMARY KEY,      -- log id
    chunk VARCHAR NOT NULL
);
CREATE TABLE IF NOT EXISTS weighted_counts (
    chunk VARCHAR NOT NULL,
    n     BIGINT NOT NULL          -- chunks whose weighted count is 0 are left out
);
CREATE TABLE IF NOT EXISTS superword_neighbours (
    left_number  INTEGER NOT NULL,
    right_number INTEGER NOT NULL,
    n            BIGINT NOT NULL
);
CREATE TABLE IF NOT EXISTS superword_chunks (
    number INTEGER PRIMARY KEY,    -- from 1 without gaps, in the order of the chunks' bytes
    chunk  VARCHAR NOT NULL
);
CREATE TABLE IF NOT EXISTS superword_run_numbers (
    numbers INTEGER[] NOT NULL,    -- two or more
    n       BIGINT NOT NULL
);
CREATE TABLE IF NOT EXISTS batches (
    batch        BIGINT PRIMARY KEY, -- number of the pass, from 0
    first_seq    BIGINT NOT NULL,    -- seq of its first event
    events       BIGINT NOT NULL,
    seconds      DOUBLE NOT NULL,
    mode         VARCHAR NOT NULL,   -- how pairs were found: index, scan, tables; interleaved, or must: --must
    occurrences  BIGINT NOT NULL,    -- occurrences found
    executed     BIGINT NOT NULL,    -- occurrences rewritten
    refills      BIGINT NOT NULL,    -- recounts of all pairs before this pass
    spills       BIGINT NOT NULL,    -- partial counts written to disk during them
    hot_pairs    BIGINT NOT NULL,    -- pairs in memory
    places       BIGINT NOT NULL,    -- of all words, and the borders between them
    memory_bytes BIGINT NOT NULL     -- of the engine's own data
);
CREATE TABLE IF NOT EXISTS vetoed (
    seq      BIGINT NOT NULL,    -- number of events before the veto
    left_id  BIGINT NOT NULL,
    right_id BIGINT NOT NULL,
    n        BIGINT NOT NULL
);
CREATE TABLE IF NOT EXISTS facts (
    key   VARCHAR PRIMARY KEY,
    value VARCHAR NOT NULL
);
