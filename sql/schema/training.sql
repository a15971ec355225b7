-- training: the tables of one training, in the schema that the connection uses (SET schema).
-- events:      one row is an event of the log, in order. With superwords also, with an empty seq, the steps of
--              phase one that found no place in the vocabulary: they may come next. While superwords
--              are learned: all words, then the superwords so far, which get other places and ids in the end.
-- tokens:      one row is an id: what it stands for, the events that made and removed it.
-- pair_counts: one row is a live pair, two ids side by side within words, and its count; every pair that may
--              be merged and counts at least `pair_floor` is here, as of event `pair_counts_at` (table facts).
--              Filled at checkpoints too. While superwords are learned, and when they are done: of two living tokens
--              that may join, in the documents; the steps of words that may come between have an empty seq in events.
-- token_counts: one row is a token and how often it stands in the chunks learned from, once all is learned
--              (chunks below the cut-off are left out; superwords are not joined; empty while a training goes on).
-- stop_words:  one row is a chunk of the stop list, and its id.
-- weighted_counts: one row is a chunk and its count with --weight; empty if the training has no weights.
-- superword_neighbours: one row is a pair of neighbouring chunks that may join a superword, as their numbers, and in how
--              many places they stand side by side; every pair that does in at least `adjacency_floor` places is here
--              (table facts; empty without superwords and while a training goes on). See view superword_adjacency.
-- superword_chunks: one row is a chunk that stands in superword_neighbours, and its number there and in
--              superword_run_numbers.
-- superword_run_numbers: one row is a run, its chunks as their numbers, and how often it stands in the documents; see
--              view superword_runs (filled and empty like superword_neighbours).
-- batches:     one row is a pass: what it learned, what it touched, what it cost.
-- vetoed:      one row is a pair that would have made a blocked token, with its count when it was the best.
-- facts:       one row is a fact about this training: its options, how far it is, its digest.
CREATE TABLE IF NOT EXISTS events (
    seq      BIGINT UNIQUE,        -- 0 is the first; NULL: not in the model, in the order of their ids
    op       VARCHAR NOT NULL,     -- merge, supermerge, delete
    left_id  BIGINT,               -- NULL for a deletion
    right_id BIGINT,
    id       BIGINT NOT NULL,      -- the token made, or taken back
    n        BIGINT NOT NULL,      -- the count it was chosen by; occurrences split, for a deletion
    parts    BIGINT[]              -- what a deletion split it into; NULL for the others
);
CREATE TABLE IF NOT EXISTS tokens (
    id       BIGINT PRIMARY KEY,   -- log id
    bytes    BLOB NOT NULL,        -- UTF-8; <names> for SCRIPT symbols that make no character
    kind     VARCHAR NOT NULL,     -- base, stop word, learned
    born     BIGINT,               -- seq of the event that first made it; NULL for the alphabet and stop words
    died     BIGINT                -- seq of the event that took it back; NULL while it lives
);
CREATE TABLE IF NOT EXISTS pair_counts (
    left_id  BIGINT NOT NULL,
    right_id BIGINT NOT NULL,
    n        BIGINT NOT NULL
);
CREATE TABLE IF NOT EXISTS token_counts (
    id       BIGINT PRIMARY KEY,   -- log id; tokens that stand nowhere any more have no row
    n        BIGINT NOT NULL,      -- occurrences in chunks, before superwords are joined
    alone    BIGINT NOT NULL       -- of them, those where the token is a whole chunk
);
CREATE TABLE IF NOT EXISTS stop_words (
    id    BIGINT PRIMARY KEY,      -- log id
    chunk VARCHAR NOT NULL
);
CREATE TABLE IF NOT EXISTS weighted_counts (
    chunk VARCHAR NOT NULL,
    n     BIGINT NOT NULL          -- chunks that came out as 0 are left out
);
CREATE TABLE IF NOT EXISTS superword_neighbours (
    left_number  INTEGER NOT NULL,
    right_number INTEGER NOT NULL,
    n            BIGINT NOT NULL
);
CREATE TABLE IF NOT EXISTS superword_chunks (
    number INTEGER PRIMARY KEY,    -- from 1, in the order of the chunks' bytes, none left out
    chunk  VARCHAR NOT NULL
);
CREATE TABLE IF NOT EXISTS superword_run_numbers (
    numbers INTEGER[] NOT NULL,    -- two or more
    n       BIGINT NOT NULL
);
CREATE TABLE IF NOT EXISTS batches (
    batch        BIGINT PRIMARY KEY, -- 0 is the first
    first_seq    BIGINT NOT NULL,    -- of its events
    events       BIGINT NOT NULL,
    seconds      DOUBLE NOT NULL,
    mode         VARCHAR NOT NULL,   -- where occurrences were found: index, scan, tables
    candidates   BIGINT NOT NULL,    -- pairs looked at together
    occurrences  BIGINT NOT NULL,    -- found
    executed     BIGINT NOT NULL,    -- and rewritten
    positions    BIGINT NOT NULL,    -- looked at
    rounds       BIGINT NOT NULL,    -- until the order was settled
    stopped_by   VARCHAR NOT NULL,   -- why no more events were committed in this pass
    refills      BIGINT NOT NULL,    -- counts from scratch before this pass
    spills       BIGINT NOT NULL,    -- partial counts written to disk meanwhile
    switched     BOOLEAN NOT NULL,   -- from scan to index before this pass
    hot_pairs    BIGINT NOT NULL,    -- pairs in memory
    pair_floor   BIGINT NOT NULL,    -- those below this count are not in memory
    places       BIGINT NOT NULL,    -- length of the column
    memory_bytes BIGINT NOT NULL     -- of the engine's arrays
);
CREATE TABLE IF NOT EXISTS vetoed (
    seq      BIGINT NOT NULL,    -- events before it
    left_id  BIGINT NOT NULL,
    right_id BIGINT NOT NULL,
    n        BIGINT NOT NULL
);
CREATE TABLE IF NOT EXISTS facts (
    key   VARCHAR PRIMARY KEY,
    value VARCHAR NOT NULL
);
